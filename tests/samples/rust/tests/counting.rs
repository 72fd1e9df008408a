#[test]
fn words_are_sorted() {
    let words: Vec<_> = wordcount::count("b a c a").into_keys().collect();
    assert_eq!(words, ["a", "b", "c"]);
}
