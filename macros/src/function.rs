//! The function under the attribute. Its signature is parsed, but its body is not.

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::token::Brace;
use syn::visit::{self, Visit};
use syn::{Attribute, FnArg, Ident, ReturnType, Signature, Token, Type, Visibility, braced};

/// A function whose body is kept as tokens, so that rustc reports the errors in the body as it does without the
/// attribute.
pub(crate) struct Function {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) signature: Signature,
    pub(crate) inner_attributes: Vec<Attribute>,
    pub(crate) brace: Brace,
    pub(crate) body: TokenStream,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        let signature: Signature = input.parse().map_err(|error| {
            syn::Error::new(
                error.span(),
                format!("`#[locked]` requires an `async fn`: {error}"),
            )
        })?;
        if input.peek(Token![;]) {
            let message =
                "`#[locked]` requires a function with a body: put it on the implementation";
            return Err(input.error(message));
        }
        let content;
        let brace = braced!(content in input);
        let inner_attributes = content.call(Attribute::parse_inner)?;
        let body = content.parse()?;
        Ok(Self {
            attributes,
            visibility,
            signature,
            inner_attributes,
            brace,
            body,
        })
    }
}

impl Function {
    /// The function with another body, in braces that have the span of the user's braces.
    pub(crate) fn with_body(&self, body: &TokenStream) -> TokenStream {
        let Self {
            attributes,
            visibility,
            signature,
            inner_attributes,
            ..
        } = self;
        let block = braces(self.brace, &quote!(#(#inner_attributes)* #body));
        quote!(#(#attributes)* #visibility #signature #block)
    }

    /// The function without changes.
    pub(crate) fn unchanged(&self) -> TokenStream {
        self.with_body(&self.body)
    }
}

/// A block with the span of the user's block. rustc points there if its last value is missing, and names the arguments
/// in it. Without this span, it does not measure the coverage of what is in the block.
pub(crate) fn braces(user: Brace, statements: &TokenStream) -> Group {
    let mut block = Group::new(Delimiter::Brace, statements.clone());
    block.set_span(user.span.join());
    block
}

/// A place in the user's code, with the hygiene of the expansion: names at it are not visible to the user's code.
pub(crate) fn expanded(at: Span) -> Span {
    at.resolved_at(Span::mixed_site())
}

/// A name that an argument binds.
pub(crate) struct Binding {
    /// The `#[cfg(..)]`s of the argument.
    pub(crate) conditions: Vec<Attribute>,
    pub(crate) name: Ident,
}

/// The names that arguments bind, in order.
#[derive(Default)]
pub(crate) struct Bindings {
    pub(crate) names: Vec<Binding>,
    /// Whether a pattern is a macro, which may bind names that are unknown here.
    pub(crate) incomplete: bool,
}

impl Bindings {
    pub(crate) fn of(signature: &Signature) -> Self {
        let mut bindings = Self::default();
        for argument in &signature.inputs {
            let first = bindings.names.len();
            let attributes = match argument {
                FnArg::Receiver(receiver) => {
                    bindings.add(Ident::new("self", receiver.self_token.span));
                    &receiver.attrs
                }
                FnArg::Typed(argument) => {
                    bindings.visit_pat(&argument.pat);
                    &argument.attrs
                }
            };
            for binding in &mut bindings.names[first..] {
                let conditions = attributes.iter().filter(|it| it.path().is_ident("cfg"));
                binding.conditions = conditions.cloned().collect();
            }
        }
        bindings
    }

    fn add(&mut self, name: Ident) {
        self.names.push(Binding {
            conditions: Vec::new(),
            name,
        });
    }

    /// The name that is `written` so, with or without `r#`.
    pub(crate) fn named(&self, written: &str) -> Option<&Ident> {
        let mut names = self.names.iter().map(|binding| &binding.name);
        names.find(|name| name.unraw() == written)
    }

    /// Whether any of the names occurs in `code`.
    pub(crate) fn occur_in(&self, code: &TokenStream) -> bool {
        self.names
            .iter()
            .any(|binding| mentions(code, &binding.name))
    }
}

impl<'ast> Visit<'ast> for Bindings {
    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        self.add(pattern.ident.clone());
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_pat(&mut self, pattern: &'ast syn::Pat) {
        self.incomplete |= matches!(pattern, syn::Pat::Macro(_) | syn::Pat::Verbatim(_));
        visit::visit_pat(self, pattern);
    }
}

/// Whether `code` contains `name`, including in the braces of a format string, which has no `r#`.
pub(crate) fn mentions(code: &TokenStream, name: &Ident) -> bool {
    let name = name.unraw();
    code.clone().into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident.unraw() == name,
        TokenTree::Group(group) => mentions(&group.stream(), &name),
        TokenTree::Literal(literal) => literal.to_string().contains(&format!("{{{name}")),
        TokenTree::Punct(_) => false,
    })
}

/// Returns the declared return type, unless it clearly is not a `Result`.
///
/// A path may be an alias of `Result`, so only the best-known other types are rejected. For all others, the trait
/// bounds of the call report the mistake, at the return type.
pub(crate) fn result_type(signature: &Signature) -> syn::Result<&Type> {
    match &signature.output {
        ReturnType::Default => Err(no_result(&signature.ident)),
        ReturnType::Type(_, declared) => check_result(declared).map(|()| &**declared),
    }
}

pub(crate) fn check_result(declared: &Type) -> syn::Result<()> {
    const OTHERS: [&str; 20] = [
        "bool", "char", "str", "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32",
        "i64", "i128", "isize", "f32", "f64", "String", "Vec", "Option",
    ];
    match declared {
        Type::Group(group) => check_result(&group.elem),
        Type::Paren(paren) => check_result(&paren.elem),
        Type::Path(path) if path.qself.is_none() && path.path.segments.len() == 1 => {
            let name = &path.path.segments[0].ident;
            if OTHERS.iter().any(|other| name == other) {
                Err(no_result(declared))
            } else {
                Ok(())
            }
        }
        Type::Path(_) | Type::Macro(_) | Type::Infer(_) | Type::Verbatim(_) => Ok(()),
        _ => Err(no_result(declared)),
    }
}

fn no_result(place: &impl ToTokens) -> syn::Error {
    let message = "`#[locked]` needs a function that returns `Result<_, E>` with \
                   `E: From<LockError>`, because acquiring the lock can fail";
    syn::Error::new_spanned(place, message)
}
