use std::io::Read;

fn main() {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .expect("standard input is text");
    for (word, number) in wordcount::count(&text) {
        println!("{number} {word}");
    }
}
