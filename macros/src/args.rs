//! The arguments of the attribute.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::spanned::Spanned;
use syn::{Expr, Ident, LitStr, Path, Token};

use crate::errors::Errors;
use crate::function::Bindings;
use crate::key::{Key, string};
use crate::{duration, names};

const NAMES: [&str; 9] = [
    "key", "locks", "held", "ttl", "wait", "max_hold", "min_hold", "on_lost", "crate",
];

/// The argument that makes the lock shared. It takes no value.
const READ: &str = "read";

/// The names that other lock libraries give to some arguments, with the names of this crate.
const SYNONYMS: [(&str, &str); 6] = [
    ("shared", READ),
    ("hold", "max_hold"),
    ("timeout", "wait"),
    ("lease", "ttl"),
    ("expiry", "ttl"),
    ("name", "key"),
];

/// The correct arguments of one attribute.
#[derive(Default)]
pub(crate) struct Arguments {
    /// The keys: one, or several if all are templates. Empty only after a mistake.
    pub(crate) keys: Vec<Key>,
    pub(crate) locks: Option<Expr>,
    /// The name of the lock in the body.
    pub(crate) held: Option<Ident>,
    /// The setters to call on the request, each as `.name(value)`.
    pub(crate) setters: TokenStream,
    /// The path of the crate `reentry`, if it is given.
    reentry: Option<Path>,
}

impl Arguments {
    /// Reads the arguments. A mistake in one does not hide mistakes in the next one.
    pub(crate) fn parse(tokens: TokenStream, bindings: &Bindings, errors: &mut Errors) -> Self {
        let mut reader = Reader {
            is_several: count_templates(&tokens) > 1,
            templates: Vec::new(),
            bindings,
            errors,
            arguments: Self::default(),
            seen: Vec::new(),
        };
        let end = (|input: ParseStream<'_>| reader.read_all(input)).parse2(tokens);
        reader.finish(end)
    }

    /// The path of the crate `reentry`, at a place for the messages of rustc.
    pub(crate) fn reentry(&self, at: Span) -> TokenStream {
        match &self.reentry {
            Some(path) => quote!(#path),
            None => quote_spanned!(at=> ::reentry),
        }
    }
}

struct Reader<'a> {
    /// Whether there are several templates.
    is_several: bool,
    /// The templates so far.
    templates: Vec<LitStr>,
    bindings: &'a Bindings,
    errors: &'a mut Errors,
    arguments: Arguments,
    /// The names of the arguments so far. A template counts as `key`.
    seen: Vec<Ident>,
}

impl Reader<'_> {
    /// Reads all arguments. Fails only if reading cannot continue.
    fn read_all(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        while !input.is_empty() {
            if input.peek(LitStr) {
                self.template(&input.parse()?);
            } else {
                self.named(input)?;
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(())
    }

    fn finish(self, end: syn::Result<()>) -> Arguments {
        if let Err(error) = end {
            self.errors.push(error);
        } else if !self.seen.iter().any(|seen| seen == "key") {
            let message = "`#[locked]` needs a key: a template such as `\"order:{id}\"`, or \
                           `key = …`";
            self.errors
                .push(syn::Error::new(Span::call_site(), message));
        }
        self.arguments
    }

    fn template(&mut self, literal: &LitStr) {
        let name = Ident::new("key", literal.span());
        if self
            .templates
            .iter()
            .any(|other| other.value() == literal.value())
        {
            let message = "this key template is given twice: remove one of them";
            self.errors.push(syn::Error::new(literal.span(), message));
        } else if !self.templates.is_empty() || self.note_name(&name) {
            let key = Key::template(literal, self.bindings, self.is_several);
            self.arguments.keys.extend(self.errors.keep(key));
        }
        self.templates.push(literal.clone());
    }

    fn named(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        let expected = "expected a key template such as `\"order:{id}\"`, or an argument such as \
                        `ttl = \"10s\"`; write any other expression for the key as `key = …`";
        let name = input
            .fork()
            .call(Ident::parse_any)
            .map_err(|_| input.error(expected))?;
        if name == READ {
            return self.read(input);
        }
        let is_known = NAMES.iter().any(|known| name == known);
        if !input.peek2(Token![=]) || input.peek2(Token![==]) {
            return Err(if is_known {
                needs_value(&name)
            } else {
                input.error(expected)
            });
        }
        let name = input.call(Ident::parse_any)?;
        input.parse::<Token![=]>()?;
        if input.is_empty() {
            return Err(needs_value(&name));
        }
        let value = input.parse()?;
        if !is_known {
            self.errors.push(unknown(&name));
        } else if self.note_name(&name) {
            self.take(&name, value);
        }
        Ok(())
    }

    fn read(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        let name = input.call(Ident::parse_any)?;
        if input.peek(Token![=]) {
            input.parse::<Token![=]>()?;
            input.parse::<Expr>()?;
            let mistake = "`read` takes no value: write `read` alone to share the lock";
            self.errors.push(syn::Error::new(name.span(), mistake));
        } else if self.note_name(&name) {
            self.arguments.setters.extend(quote!(.read()));
        }
        Ok(())
    }

    fn take(&mut self, name: &Ident, value: Expr) {
        match &*name.to_string() {
            "key" => {
                let key = Key::value(value, self.bindings);
                self.arguments.keys.extend(self.errors.keep(key));
            }
            "locks" => self.arguments.locks = Some(value),
            "held" => {
                let held = self.binding(&value);
                self.arguments.held = self.errors.keep(held);
            }
            "crate" => {
                let path = path(value);
                self.arguments.reentry = self.errors.keep(path);
            }
            option => {
                let setter = match option {
                    "ttl" | "wait" | "max_hold" | "min_hold" => self.timed(name, &value),
                    _ => Ok(quote!(.#name(#value))),
                };
                let setter = self.errors.keep(setter);
                self.arguments.setters.extend(setter);
            }
        }
    }

    /// The name of the lock in the body, from the value of `held`.
    fn binding(&self, value: &Expr) -> syn::Result<Ident> {
        let name = match value {
            Expr::Path(path) => path.path.get_ident(),
            _ => None,
        };
        let mistake = match name {
            Some(name) if !self.is_several => return Ok(name.clone()),
            Some(_) => {
                "`held` requires a single key: use `reentry::held(…)` in the body for several keys"
            }
            None => "`held` takes a name for the lock in the body: `held = lock`",
        };
        Err(syn::Error::new_spanned(value, mistake))
    }

    /// The setter for a duration.
    fn timed(&mut self, name: &Ident, value: &Expr) -> syn::Result<TokenStream> {
        let text = string(value).map(LitStr::value);
        Ok(match (&*name.to_string(), text.as_deref()) {
            ("wait", Some("none")) => quote_spanned!(value.span()=> .no_wait()),
            ("wait", Some("forever")) => {
                quote_spanned!(value.span()=> .wait(::core::time::Duration::MAX))
            }
            _ => {
                let duration = self.duration(name, value)?;
                quote_spanned!(value.span()=> .#name(#duration))
            }
        })
    }

    /// The duration of a value. A string is parsed now, and any other value is an expression.
    fn duration(&mut self, name: &Ident, value: &Expr) -> syn::Result<TokenStream> {
        let Some(literal) = string(value) else {
            if matches!(value, Expr::Lit(_)) {
                let message = format!("a duration needs a unit: `{name} = \"10s\"`");
                return Err(syn::Error::new_spanned(value, message));
            }
            return Ok(quote!(#value));
        };
        let at = literal.span();
        let duration = match (&*name.to_string(), &*literal.value()) {
            ("wait", text) => duration::parse(text)
                .map_err(|message| format!("{message}; `none` and `forever` are also accepted")),
            (name, text) => duration::parse(text).and_then(|duration| match name {
                _ if !duration.is_zero() || name == "min_hold" => Ok(duration),
                _ => Err(format!(
                    "a `{name}` of zero would lose the lock immediately"
                )),
            }),
        };
        let duration = duration.map_err(|message| syn::Error::new(at, message))?;
        // `duration::parse` returns nothing longer.
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Ok(quote_spanned!(at=> ::core::time::Duration::from_millis(#millis)))
    }

    /// Records the name of an argument. If the name was given before, records an error and returns false.
    fn note_name(&mut self, name: &Ident) -> bool {
        let repeated = self.seen.contains(name);
        if repeated {
            let message = if name == "key" {
                "the key is given twice: write either key templates or one `key = …`".to_owned()
            } else {
                format!("`{name}` is given twice")
            };
            self.errors.push(syn::Error::new(name.span(), message));
        }
        self.seen.push(name.clone());
        !repeated
    }
}

/// The value of `crate`.
fn path(value: Expr) -> syn::Result<Path> {
    match value {
        Expr::Group(group) => path(*group.expr),
        Expr::Path(value) if value.qself.is_none() => Ok(value.path),
        value => {
            let message = "`crate` takes the path of the crate `reentry`, without quotes: \
                           `crate = company::reentry`";
            Err(syn::Error::new_spanned(value, message))
        }
    }
}

/// The number of arguments that begin with a string.
fn count_templates(tokens: &TokenStream) -> usize {
    let mut begins = true;
    let mut count = 0;
    for token in tokens.clone() {
        count += usize::from(begins && syn::parse2::<LitStr>(token.clone().into()).is_ok());
        begins = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == ',');
    }
    count
}

fn needs_value(name: &Ident) -> syn::Error {
    syn::Error::new(name.span(), format!("`{name}` needs a value: `{name} = …`"))
}

fn unknown(name: &Ident) -> syn::Error {
    let written = name.to_string();
    let synonyms = SYNONYMS.map(|(synonym, _)| synonym);
    let known = NAMES.into_iter().chain([READ]).chain(synonyms);
    let hint = match names::nearest(&written, known) {
        Some(near) => {
            let synonym = SYNONYMS.iter().find(|(synonym, _)| *synonym == near);
            format!("did you mean `{}`?", synonym.map_or(near, |(_, name)| name))
        }
        None => format!("the arguments are {}", names::list(NAMES)),
    };
    syn::Error::new(name.span(), format!("unknown argument `{written}`: {hint}"))
}
