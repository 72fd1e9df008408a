//! Counts words.

use std::collections::BTreeMap;

/// How often each word occurs, in lower case.
pub fn count(text: &str) -> BTreeMap<String, usize> {
    let mut words = BTreeMap::new();
    for word in text.split_whitespace() {
        *words.entry(word.to_lowercase()).or_insert(0) += 1;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_does_not_matter() {
        assert_eq!(count("Tea tea cup")["tea"], 2);
        assert!(count("  \n").is_empty());
    }
}
