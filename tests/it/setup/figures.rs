//! Every figure in the guide was measured: the figures of `docs/guide/tuning.md` are in `docs/performance.md`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::ROOT;

/// The numbers of a page, in their written form.
fn numbers(page: &str) -> BTreeSet<String> {
    let page = fs::read_to_string(Path::new(ROOT).join("docs").join(page)).unwrap();
    let words = page.split(|letter: char| !letter.is_ascii_digit() && !".,".contains(letter));
    let numbers = words.map(|word| word.trim_matches(['.', ',']).to_owned());
    numbers.filter(|number| !number.is_empty()).collect()
}

#[test]
fn the_figures_of_the_guide_are_those_that_were_measured() {
    let (told, measured) = (numbers("guide/tuning.md"), numbers("performance.md"));
    assert!(told.len() > 20, "{told:?}");
    let unknown: Vec<_> = told.difference(&measured).collect();
    assert!(unknown.is_empty(), "not in performance.md: {unknown:?}");
}
