module sample.test/report

go 1.19
