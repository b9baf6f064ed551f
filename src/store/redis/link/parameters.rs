//! The parameters of a URL: what follows its `?`.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// The parameters whose values are secret.
const SECRETS: [&str; 2] = ["pass", "sentinel_password"];

/// The parameters of a URL. The URL supports each of them, and sets it once.
pub(crate) struct Parameters {
    pub(crate) database: Option<u32>,
    others: BTreeMap<&'static str, String>,
}

impl Parameters {
    /// Reads the parameters of a URL that supports these names. The error is the reason why they cannot be used, and
    /// has no value of a parameter.
    pub(crate) fn read<'u>(
        pairs: impl Iterator<Item = (Cow<'u, str>, Cow<'u, str>)>,
        supported: &[&'static str],
    ) -> Result<Self, String> {
        let pairs: Vec<_> = pairs.collect();
        let mut read = BTreeMap::new();
        for (name, value) in &pairs {
            let Some(known) = supported.iter().find(|known| *known == name) else {
                let has_secret = read.keys().any(|it| SECRETS.contains(it))
                    || pairs
                        .iter()
                        .any(|(name, value)| [name, value].iter().any(|it| it.contains('@')));
                return Err(unknown(name, has_secret, supported));
            };
            if read.insert(*known, value.clone().into_owned()).is_some() {
                return Err(format!("`{known}` is set twice"));
            }
        }
        let database = read.remove("db").map(|value| value.parse());
        let database = database.transpose();
        // Other clients of the same URL read it.
        drop(read.remove("protocol"));
        Ok(Self {
            database: database.map_err(|_| "`db` must be the number of a database")?,
            others: read,
        })
    }

    /// The value of another parameter.
    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        self.others.remove(name)
    }
}

/// The reason why a parameter cannot be used. With a secret in the URL, the name may be a part of it: an unescaped `&`
/// or `?` ends a password too early.
fn unknown(name: &str, has_secret: bool, supported: &[&str]) -> String {
    let is_name = |letter: char| letter.is_ascii_alphabetic() || "_-".contains(letter);
    let what = if has_secret || name.is_empty() || !name.chars().all(is_name) {
        "an unknown parameter (in a value, write `&` as `%26`)".to_owned()
    } else {
        format!("the unknown parameter `{name}`")
    };
    let supported = supported.join("`, `");
    format!("it has {what}; the supported parameters are `{supported}`")
}
