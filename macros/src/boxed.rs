//! Functions that are not `async`, but return a future.
//!
//! `#[async_trait]` is expanded before the attributes of the methods, and creates `fn f(..) -> Pin<Box<dyn
//! Future<Output = R> + Send>> { Box::pin(async move { .. }) }`. The lock is acquired inside this future, so that the
//! call stays lazy.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::token::Plus;
use syn::visit::Visit;
use syn::{
    Block, Expr, ExprAsync, FnArg, GenericArgument, Ident, Pat, Path, PathArguments, ReturnType,
    Signature, Stmt, Type, TypeParamBound,
};

use crate::args::Arguments;
use crate::emit::{anchor, binding, body, run};
use crate::errors::Errors;
use crate::function::{Bindings, Function, check_result};

/// A function whose last expression is an async block, with or without `Box::pin`.
pub(crate) struct Boxed {
    statements: Vec<Stmt>,
    output: Type,
}

const HIDDEN: &str = "`#[locked]` must see the output type of the future: instead of an alias, write \
                      `Pin<Box<dyn Future<Output = …>>>`, `BoxFuture<'_, …>` or `impl Future<Output = …>`";

impl Boxed {
    pub(crate) fn find(function: &Function) -> syn::Result<Self> {
        let message = "`#[locked]` requires an `async fn`; if another attribute removes the `async`, \
                       as `#[tokio::main]` does, put `#[locked]` above it";
        let not_async = || syn::Error::new_spanned(function.signature.fn_token, message);
        let mut statements = Block::parse_within
            .parse2(function.body.clone())
            .map_err(|_| not_async())?;
        let is_async = statements.last_mut().and_then(async_block).is_some();
        if !is_async {
            return Err(not_async());
        }
        let ReturnType::Type(_, future) = &function.signature.output else {
            return Err(not_async());
        };
        let output = output(future).ok_or_else(|| syn::Error::new_spanned(future, HIDDEN))?;
        let output = output.clone();
        Ok(Self { statements, output })
    }

    pub(crate) fn expand(
        mut self,
        function: &Function,
        arguments: TokenStream,
        errors: &mut Errors,
    ) -> TokenStream {
        let mut bindings = Bindings::of(&function.signature);
        for statement in &self.statements {
            if let Stmt::Local(local) = statement {
                bindings.visit_pat(&local.pat);
            }
        }
        errors.keep(check_result(&self.output));
        let Some(future) = self.statements.last_mut().and_then(async_block) else {
            return function.unchanged();
        };
        let inner = std::mem::take(&mut future.block.stmts);
        // The key may name the parts of a destructured argument, so these statements come first.
        let (unpacked, inner) = inner.into_iter().partition::<Vec<_>, _>(|statement| {
            let pattern = unpacked(statement, &function.signature);
            pattern.map(|pattern| bindings.visit_pat(pattern)).is_some()
        });
        let arguments = Arguments::parse(arguments, &bindings, errors);
        if !errors.is_empty() {
            return function.unchanged();
        }
        let anchor = anchor(&self.output);
        let capture = &future.capture;
        let binding = binding(&arguments);
        let block = body(
            future.block.brace_token,
            &quote!(#anchor #binding),
            &quote!(#(#inner)*),
        );
        let inner = quote!(async #capture #block);
        let name = &function.signature.ident;
        let run = run(name, &arguments, &self.output, &inner);
        let outer = quote!(#anchor #(#unpacked)* #run);
        future.block.stmts = vec![Stmt::Expr(Expr::Verbatim(outer), None)];
        let statements = &self.statements;
        function.with_body(&quote!(#(#statements)*))
    }
}

/// The async block that is the value of a statement.
fn async_block(statement: &mut Stmt) -> Option<&mut ExprAsync> {
    let Stmt::Expr(value, None) = statement else {
        return None;
    };
    match value {
        Expr::Async(block) => Some(block),
        Expr::Call(call) => match (&*call.func, call.args.first_mut()) {
            (Expr::Path(function), Some(Expr::Async(block))) => {
                let names = function.path.segments.iter().rev();
                let mut names = names.map(|segment| &segment.ident);
                let is_box_pin = names.next()? == "pin" && names.next()? == "Box";
                is_box_pin.then_some(block)
            }
            _ => None,
        },
        _ => None,
    }
}

/// The output type of a future.
fn output(future: &Type) -> Option<&Type> {
    match future {
        Type::Group(group) => output(&group.elem),
        Type::Paren(paren) => output(&paren.elem),
        Type::ImplTrait(future) => output_in(&future.bounds),
        Type::TraitObject(future) => output_in(&future.bounds),
        Type::Path(path) => {
            let (name, arguments) = arguments_of(&path.path)?;
            let last = arguments.rev().find_map(|argument| match argument {
                GenericArgument::Type(argument) => Some(argument),
                _ => None,
            })?;
            match &*name.to_string() {
                "Pin" | "Box" => output(last),
                "BoxFuture" | "LocalBoxFuture" => Some(last),
                _ => None,
            }
        }
        _ => None,
    }
}

fn output_in(bounds: &Punctuated<TypeParamBound, Plus>) -> Option<&Type> {
    bounds.iter().find_map(|bound| {
        let TypeParamBound::Trait(bound) = bound else {
            return None;
        };
        let (_, mut arguments) = arguments_of(&bound.path)?;
        arguments.find_map(|argument| match argument {
            GenericArgument::AssocType(it) if it.ident == "Output" => Some(&it.ty),
            _ => None,
        })
    })
}

/// The last name of a path, and its arguments in angle brackets.
fn arguments_of(
    path: &Path,
) -> Option<(&Ident, impl DoubleEndedIterator<Item = &GenericArgument>)> {
    let segment = path.segments.last()?;
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else {
        return None;
    };
    Some((&segment.ident, arguments.args.iter()))
}

/// The pattern of a statement with which `#[async_trait]` destructures an argument: `let (a, b) = { let __arg1 =
/// __arg1; __arg1 };`.
fn unpacked<'a>(statement: &'a Stmt, signature: &Signature) -> Option<&'a Pat> {
    let Stmt::Local(local) = statement else {
        return None;
    };
    let Expr::Block(block) = &*local.init.as_ref()?.expr else {
        return None;
    };
    let [Stmt::Local(_), Stmt::Expr(Expr::Path(argument), None)] = &*block.block.stmts else {
        return None;
    };
    let name = argument
        .path
        .get_ident()
        .filter(|name| name.to_string().starts_with("__arg"))?;
    let is_argument = signature.inputs.iter().any(|input| {
        matches!(input, FnArg::Typed(input)
            if matches!(&*input.pat, Pat::Ident(pattern) if pattern.ident == *name))
    });
    is_argument.then_some(&local.pat)
}
