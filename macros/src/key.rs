//! The key of the lock: a template with expressions, or one expression.

use std::ops::Range;

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Expr, Ident, Lit, LitStr, parse_quote};

use crate::function::Bindings;
use crate::names;
use crate::template::{Expression, Template};
use crate::unbound::unbound;

/// The expression of a key.
pub(crate) enum Key {
    /// A format string, and the values of its placeholders.
    Template { format: LitStr, values: Vec<Expr> },
    /// The value of `key = …`.
    Value(Expr),
}

impl Key {
    /// Reads a template, which may be one of several. Its expressions must name some of `bindings`.
    pub(crate) fn template(
        literal: &LitStr,
        bindings: &Bindings,
        is_several: bool,
    ) -> syn::Result<Self> {
        let text = literal.value();
        let template = Template::parse(&text)
            .map_err(|flaw| syn::Error::new(span_in(literal, &text, flaw.range), flaw.message))?;
        let mut values = Vec::new();
        for expression in &template.expressions {
            values.push(value(literal, &text, expression, bindings)?);
        }
        let unknown = values.iter().zip(&template.expressions);
        let unknown = unknown.flat_map(|(value, expression)| {
            let names = unbound(value).into_iter();
            names.map(|name| (name, expression.range.clone()))
        });
        let unknown = unknown
            .filter(|(name, _)| {
                !bindings.incomplete && bindings.named(&name.unraw().to_string()).is_none()
            })
            .map(|(name, range)| no_argument(name, bindings, span_in(literal, &text, range)))
            .reduce(|mut all, next| {
                all.combine(next);
                all
            });
        if let Some(unknown) = unknown {
            return Err(unknown);
        }
        let code = quote!(#(#values)*);
        if !bindings.incomplete && !bindings.occur_in(&code) {
            let instead = match (is_several, values.is_empty()) {
                (true, _) => "acquire that lock in the body with `Locks::with_lock`",
                (false, true) => "write `key = \"…\"`",
                (false, false) => "write `key = format!(…)`",
            };
            let message = format!(
                "this key template names no argument, so all calls would share one lock; if that \
                 is intended, {instead}"
            );
            return Err(syn::Error::new_spanned(literal, message));
        }
        let format = LitStr::new(&template.format, literal.span());
        Ok(Self::Template { format, values })
    }

    /// Reads `key = …`. Rejects a string that looks like a template.
    pub(crate) fn value(value: Expr, bindings: &Bindings) -> syn::Result<Self> {
        let Some(literal) = text_of(&value) else {
            return Ok(Self::Value(value));
        };
        let text = literal.value();
        let template = Template::parse(&text);
        let expressions = template.map(|it| it.expressions).unwrap_or_default();
        for Expression { code, range } in expressions {
            if looks_filled_in(code, bindings) {
                let message = format!(
                    "`key = …` does not replace `{{{code}}}`, so all calls would share one lock; \
                     remove `key =` to make it a template, or put the text into a `const` if the \
                     braces belong to the key"
                );
                return Err(syn::Error::new(span_in(literal, &text, range), message));
            }
        }
        Ok(Self::Value(value))
    }
}

/// Whether `code`, found between braces, was probably meant as an expression of a template.
fn looks_filled_in(code: &str, bindings: &Bindings) -> bool {
    parse(code, Span::call_site(), bindings).is_ok_and(|expression| {
        let is_name = matches!(&expression, Expr::Path(path) if path.path.get_ident().is_some());
        is_name || bindings.occur_in(&expression.to_token_stream())
    })
}

/// The string literal of an expression that borrows it, or creates a `String` from it.
fn text_of(value: &Expr) -> Option<&LitStr> {
    match value {
        Expr::Paren(inner) => text_of(&inner.expr),
        Expr::Reference(inner) => text_of(&inner.expr),
        // For example `.to_owned()`. A method with arguments may fill in the braces.
        Expr::MethodCall(call) if call.args.is_empty() => text_of(&call.receiver),
        _ => string(value),
    }
}

impl ToTokens for Key {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.extend(match self {
            Self::Template { format, values } => quote_spanned! {format.span()=>
                ::std::format!(#format #(, #values)*)
            },
            Self::Value(value) => quote_spanned! {value.span()=>
                ::core::convert::AsRef::<str>::as_ref(&(#value))
            },
        });
    }
}

/// The error for a template with a name that is not an argument.
fn no_argument(name: &Ident, bindings: &Bindings, at: Span) -> syn::Error {
    let name = name.unraw();
    let names = bindings.names.iter().map(|it| it.name.unraw().to_string());
    // `#[async_trait]` gives such names to arguments that are patterns.
    let names: Vec<_> = names.filter(|name| !name.starts_with("__arg")).collect();
    let all = || names.iter().map(String::as_str);
    let hint = match (names::nearest(&name.to_string(), all()), names.len()) {
        (Some(known), _) => format!("did you mean `{known}`?"),
        (None, 0) => "the function has none".to_owned(),
        (None, 1) => format!("the only one is {}", names::list(all())),
        (None, _) => format!("the arguments are {}", names::list(all())),
    };
    syn::Error::new(at, format!("no argument `{name}`; {hint}"))
}

/// The string literal, if the expression is one.
pub(crate) fn string(value: &Expr) -> Option<&LitStr> {
    match value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(literal) => Some(literal),
            _ => None,
        },
        // `macro_rules!` passes `$x:expr` and `$x:literal` in a group.
        Expr::Group(group) => string(&group.expr),
        _ => None,
    }
}

/// Parses one placeholder. All its tokens have the span of the template.
fn value(
    literal: &LitStr,
    text: &str,
    expression: &Expression<'_>,
    bindings: &Bindings,
) -> syn::Result<Expr> {
    let span = span_in(literal, text, expression.range.clone());
    let code = expression.code;
    match parse(code, span, bindings) {
        // `format!` would read it as a named argument.
        Ok(Expr::Assign(_)) => Err(syn::Error::new(
            span,
            format!("`{code}` in the key template is an assignment"),
        )),
        Ok(value) => Ok(value),
        Err(error) => {
            let message = format!("`{code}` in the key template is not an expression: {error}");
            Err(syn::Error::new(span, message))
        }
    }
}

/// Parses the code of a placeholder, with one span for all of its tokens. As in `format!`, a keyword alone is the
/// argument of this name: `{type}` is `r#type`.
fn parse(code: &str, at: Span, bindings: &Bindings) -> syn::Result<Expr> {
    let expression = LitStr::new(code, at).parse();
    expression.or_else(|error| {
        let mut name = bindings.named(code).cloned().ok_or(error)?;
        name.set_span(at);
        Ok(parse_quote!(#name))
    })
}

/// The span of a part of the template, if the compiler can determine it. It can do so on nightly, and only if there is
/// no escape before the part.
fn span_in(literal: &LitStr, text: &str, range: Range<usize>) -> Span {
    let token = literal.token();
    let written = token.to_string();
    let inner = written.find(text).filter(|_| written.ends_with(['"', '#']));
    inner
        .and_then(|start| token.subspan(start + range.start..start + range.end))
        .unwrap_or_else(|| literal.span())
}
