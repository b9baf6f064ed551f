//! The new body of a function with the attribute.

use proc_macro2::{Group, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::spanned::Spanned;
use syn::token::Brace;
use syn::visit_mut::{self, VisitMut};
use syn::{Ident, Item, Type};

use crate::args::Arguments;
use crate::function::{braces, expanded};

/// The statements that acquire the lock and run `body` under it.
///
/// They first compute the keys and the options from the arguments as they were passed, because the body may move the
/// arguments.
pub(crate) fn run(
    function: &Ident,
    arguments: &Arguments,
    declared: &Type,
    body: &TokenStream,
) -> TokenStream {
    let Arguments {
        keys,
        locks,
        setters,
        ..
    } = arguments;
    let reentry = arguments.reentry(Span::call_site());
    let at = expanded(declared.span());
    let [found, request, future, output, error] =
        ["locks", "request", "future", "output", "error"].map(|name| local(name, at));
    let function = function.unraw().to_string();
    let first = keys.first();
    let run_on = |locks: &TokenStream| {
        let asked = match &keys[..] {
            [key] => quote!(#reentry::Locks::lock(#locks, #key)),
            several => quote!(#reentry::Locks::lock_all(#locks, [#(#several),*])),
        };
        quote! {
            let #request = #asked #setters;
            let #future = #body;
            #reentry::LockRequest::run(#request, #future).await
        }
    };
    let outcome = match locks {
        Some(locks) => {
            let at = locks.span();
            let reentry = arguments.reentry(at);
            run_on(&quote_spanned!(at=> #reentry::__private::AsLocks::as_locks(&(#locks))))
        }
        None => {
            let run = run_on(&quote!(&#found));
            quote! {
                match #reentry::__private::locks() {
                    ::core::option::Option::Some(#found) => { #run }
                    ::core::option::Option::None => ::core::result::Result::Err(
                        #reentry::__private::no_locks(#function, #first),
                    ),
                }
            }
        }
    };
    // The only place where the error of a lock becomes the error of the function. It has the span of the return type.
    // So rustc points there if the type is not a `Result`, or cannot be created from a `LockError`.
    let finish = quote_spanned! {at=>
        return match #output {
            ::core::result::Result::Ok(#output) => #output,
            ::core::result::Result::Err(#error) => {
                ::core::result::Result::Err(::core::convert::From::from(#error))
            }
        };
    };
    quote! {
        let #output = { #outcome };
        #finish
    }
}

/// A name that the user's code cannot see, at a place with the hygiene of the expansion.
fn local(name: &str, at: Span) -> Ident {
    format_ident!("__reentry_{name}", span = at)
}

/// A branch that is never taken and returns the declared type. So the type of the body is known before its first `?`,
/// and mistakes are reported in the user's code.
pub(crate) fn anchor(declared: &Type) -> TokenStream {
    let mut known = declared.clone();
    EraseImplTrait.visit_type_mut(&mut known);
    let at = expanded(declared.span());
    let never = local("never", at);
    quote_spanned! {at=>
        if let ::core::option::Option::Some(#never) = ::core::option::Option::None::<#known> {
            return #never;
        }
    }
}

/// The statement that binds the lock to the name that the attribute gives to it.
pub(crate) fn binding(arguments: &Arguments) -> TokenStream {
    let held = arguments.held.iter();
    let reentry = arguments.reentry(Span::call_site());
    quote!(#(let #held = #reentry::__private::held();)*)
}

/// The block of the user, with other statements before the user's.
pub(crate) fn body(user: Brace, first: &TokenStream, statements: &TokenStream) -> Group {
    if begins_with_item(statements) {
        // Clippy expects the items of a block before its statements.
        let inner = braces(user, statements);
        braces(user, &quote!(#first #inner))
    } else {
        braces(user, &quote!(#first #statements))
    }
}

fn begins_with_item(statements: &TokenStream) -> bool {
    let first = |input: ParseStream<'_>| {
        let first = input.parse::<Item>()?;
        input.parse::<TokenStream>().map(|_| first)
    };
    match first.parse2(statements.clone()) {
        // A call of a macro has no name.
        Ok(Item::Macro(item)) => item.ident.is_some(),
        first => first.is_ok(),
    }
}

/// Replaces `impl Trait`, which cannot be named in a body, with `_`.
struct EraseImplTrait;

impl VisitMut for EraseImplTrait {
    fn visit_type_mut(&mut self, declared: &mut Type) {
        if matches!(declared, Type::ImplTrait(_)) {
            *declared = syn::parse_quote!(_);
        } else {
            visit_mut::visit_type_mut(self, declared);
        }
    }
}
