//! The expansion of the attribute.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::Ident;

use crate::args::Arguments;
use crate::boxed::Boxed;
use crate::emit::{anchor, binding, body, run};
use crate::errors::Errors;
use crate::function::{Binding, Bindings, Function, expanded, mentions, result_type};

/// Expands `#[locked(arguments)] item`.
///
/// The function is emitted even after a mistake, so that its callers still find it, and only the mistake is reported.
pub(crate) fn locked(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let function: Function = match syn::parse2(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            let error = error.to_compile_error();
            return quote!(#error #item);
        }
    };
    let mut errors = Errors::default();
    let expanded = if function.signature.asyncness.is_some() {
        expand_async(&function, arguments, &mut errors)
    } else {
        match Boxed::find(&function) {
            Ok(boxed) => boxed.expand(&function, arguments, &mut errors),
            Err(error) => {
                errors.push(error);
                function.unchanged()
            }
        }
    };
    quote!(#errors #expanded)
}

fn expand_async(function: &Function, arguments: TokenStream, errors: &mut Errors) -> TokenStream {
    let bindings = Bindings::of(&function.signature);
    let arguments = Arguments::parse(arguments, &bindings, errors);
    let declared = errors.keep(result_type(&function.signature));
    let captures = captures(&bindings, &function.body, &arguments);
    let anchor = declared.map(anchor);
    let binding = binding(&arguments);
    let block = body(
        function.brace,
        &quote!(#captures #anchor #binding),
        &function.body,
    );
    let asyncness = &function.signature.asyncness;
    // The body is boxed, so that the function may call itself. The box has the type of the body instead of `dyn
    // Future`, so that it is `Send` exactly if the body is.
    let future = quote!(::std::boxed::Box::pin(#asyncness move #block));
    function.with_body(&match declared {
        Some(declared) if errors.is_empty() => {
            run(&function.signature.ident, &arguments, declared, &future)
        }
        _ => quote!(#future.await),
    })
}

/// The statements that only move whole arguments into the body.
///
/// Without them, a body that uses `order.id` would capture only that field, and the rest of `order` would be dropped
/// after the lock is released. The statements are in reverse order, because captures are dropped in the order in which
/// they are mentioned, and arguments in reverse order. An argument that the body does not mention is omitted, so that
/// rustc still reports it as unused.
fn captures(bindings: &Bindings, body: &TokenStream, arguments: &Arguments) -> TokenStream {
    let Arguments {
        keys,
        locks,
        setters,
        ..
    } = arguments;
    let used = quote!(#body #(#keys)* #locks #setters);
    let is_used = |name: &Ident| {
        keys.is_empty() || name.to_string().starts_with('_') || mentions(&used, name)
    };
    let names = bindings
        .names
        .iter()
        .rev()
        .filter(|binding| is_used(&binding.name));
    let captures = names.map(|Binding { conditions, name }| {
        let at = expanded(name.span());
        let mention = if name.to_string().starts_with('_') {
            // Clippy's `used_underscore_binding` ignores the left side of an assignment. An `allow` would be an error
            // in a crate that forbids the lint.
            let reentry = arguments.reentry(at);
            quote_spanned!(at=> { *&mut #reentry::__private::capture(&#name) = (); })
        } else {
            quote_spanned!(at=> let _ = &#name;)
        };
        quote!(#(#conditions)* #mention)
    });
    quote!(#(#captures)*)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each path of the expansion, for functions that need all of them.
    #[test]
    fn no_path_names_the_crate_but_the_one_that_is_given() {
        let functions = [
            quote!(
                async fn f(id: u8, _by: u8) -> Result<u8, E> {
                    Ok(id)
                }
            ),
            quote!(
                fn f(id: u8) -> BoxFuture<'static, Result<u8, E>> {
                    Box::pin(async move { Ok(id) })
                }
            ),
        ];
        let arguments = [
            quote!("{id}", held = lock, wait = "none"),
            quote!("{id}", "other:{id}", locks = locks, read),
        ];
        for function in &functions {
            for arguments in &arguments {
                let paths = |arguments: TokenStream| {
                    let expanded = locked(arguments, function.clone()).to_string();
                    assert!(!expanded.contains("compile_error"), "{expanded}");
                    [":: reentry ::", "company :: locks ::"].map(|it| expanded.matches(it).count())
                };
                let [count, _] = paths(arguments.clone());
                assert!(count > 2);
                let given = paths(quote!(#arguments, crate = company::locks));
                assert_eq!(given, [0, count]);
            }
        }
    }
}
