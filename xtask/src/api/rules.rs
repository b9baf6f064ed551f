//! The traits and attributes that each public type needs.

use rustdoc_types::{Attribute, Crate, Id, Item, ItemEnum};
use std::collections::BTreeSet;

/// The exceptions from the rules, and the reasons.
const EXCEPTIONS: [(&str, Rule, &str); 1] = [(
    "LockGuard",
    Rule::Clone,
    "a clone would release the lock twice",
)];

/// A requirement for public types. A future needs neither `Sync` nor `Clone`: it has one owner, which polls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// An implementation of `Debug`.
    Debug,
    /// `Send` and `Sync`: a lock is shared by tasks, which move between threads.
    Send,
    Sync,
    /// An implementation of `Clone`.
    Clone,
    /// `#[non_exhaustive]`, on enums: a new case must not break a program.
    NonExhaustive,
    /// `#[must_use]`, on futures, guards and builders: if they are not used, they do nothing, or end immediately.
    MustUse,
}

/// The rules for all types, apart from the exceptions.
const RULES: [Rule; 6] = [
    Rule::Debug,
    Rule::Send,
    Rule::Sync,
    Rule::Clone,
    Rule::NonExhaustive,
    Rule::MustUse,
];

/// The ends of names of types that do nothing before they are used, or that end something when they are dropped.
const MUST_USE_NAMES: [&str; 3] = ["Builder", "Request", "Guard"];

/// The violations, one per line, in the order of the names. An exception that is not needed is also a violation.
///
/// `lines` show which types can be named. The JSON also has the types of `pub` items in private modules.
pub(super) fn broken(surface: &Crate, lines: &str) -> Vec<String> {
    let nameable = nameable(lines);
    let mut all: Vec<_> = types(surface)
        .filter(|named| nameable.contains(named.name))
        .flat_map(|named| RULES.map(|rule| (named, rule)))
        .filter(|(named, rule)| !named.keeps(*rule))
        .map(|(named, rule)| (named.name, rule))
        .collect();
    all.sort_by_key(|(name, _)| *name);
    let is_exception = |name: &str, rule: Rule| {
        let mut exceptions = EXCEPTIONS.iter();
        exceptions.any(|(of, exception, _)| *of == name && *exception == rule)
    };
    let unneeded = EXCEPTIONS
        .iter()
        .filter(|(name, rule, _)| !all.contains(&(*name, *rule)))
        .map(|(name, rule, _)| format!("{name}: the exception from {rule:?} is not needed"));
    let broken = all.iter().filter(|(name, rule)| !is_exception(name, *rule));
    let broken = broken.map(|(name, rule)| format!("{name}: {rule:?}"));
    broken.chain(unneeded).collect()
}

/// The names of the structs and enums in the lines of a surface.
fn nameable(lines: &str) -> BTreeSet<&str> {
    let names = lines.lines().filter_map(|line| {
        let line = line.strip_prefix("#[non_exhaustive] ").unwrap_or(line);
        let line = line.strip_prefix("pub ")?;
        let path = line
            .strip_prefix("struct ")
            .or(line.strip_prefix("enum "))?;
        let path = path.split(['<', '(', ' ']).next()?;
        path.rsplit("::").next()
    });
    names.collect()
}

/// A public type with its implementations.
#[derive(Clone, Copy)]
struct Named<'a> {
    surface: &'a Crate,
    name: &'a str,
    item: &'a Item,
    impls: &'a [Id],
}

fn types(surface: &Crate) -> impl Iterator<Item = Named<'_>> {
    surface.index.values().filter_map(|item| {
        let impls = match &item.inner {
            ItemEnum::Struct(it) => &it.impls,
            ItemEnum::Enum(it) => &it.impls,
            _ => return None,
        };
        Some(Named {
            surface,
            name: item.name.as_deref()?,
            item,
            impls,
        })
    })
}

impl Named<'_> {
    fn keeps(&self, rule: Rule) -> bool {
        match rule {
            Rule::Debug => self.is("Debug"),
            Rule::Send => self.is("Send"),
            Rule::Sync => self.is("Sync") || self.is("Future"),
            Rule::Clone => self.is("Clone") || self.is("Future"),
            Rule::NonExhaustive => {
                let is_enum = matches!(self.item.inner, ItemEnum::Enum(_));
                !is_enum || self.item.attrs.contains(&Attribute::NonExhaustive)
            }
            Rule::MustUse => {
                let is_used = self.is("Future")
                    || self.is("IntoFuture")
                    || self.is("Drop")
                    || MUST_USE_NAMES.iter().any(|end| self.name.ends_with(end));
                let mut attrs = self.item.attrs.iter();
                !is_used || attrs.any(|it| matches!(it, Attribute::MustUse { .. }))
            }
        }
    }

    /// Whether the type implements this trait, at least for some of its parameters.
    fn is(&self, name: &str) -> bool {
        self.impls.iter().any(|id| {
            let Some(ItemEnum::Impl(it)) = self.surface.index.get(id).map(|item| &item.inner)
            else {
                return false;
            };
            let is_named = |path: &str| path.rsplit("::").next() == Some(name);
            !it.is_negative && it.trait_.as_ref().is_some_and(|it| is_named(&it.path))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_types_that_can_be_named_are_checked() {
        let lines = "#[non_exhaustive] pub enum a::Mode\npub a::Mode::Shared\npub struct a::b::Server(_)\n\
                     pub fn a::Keys::new() -> a::Keys\npub struct a::Request<K>\nimpl Clone for a::Key\n";
        let names: Vec<_> = nameable(lines).into_iter().collect();
        assert_eq!(names, ["Mode", "Request", "Server"]);
    }
}
