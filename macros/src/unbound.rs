//! Finds the names that an expression uses, but does not bind.

use syn::visit::{self, Visit};
use syn::{Expr, Ident};

/// The names that `expression` does not bind, as far as can be determined without the compiler.
///
/// A name that begins with an upper-case letter may be a constant, and a path is not a variable. Closures and blocks
/// may bind their own names, so they are left to the compiler.
pub(crate) fn unbound(expression: &Expr) -> Vec<&Ident> {
    let mut names = Names(Vec::new());
    names.visit_expr(expression);
    names.0
}

struct Names<'a>(Vec<&'a Ident>);

impl<'a> Visit<'a> for Names<'a> {
    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Path(path) => {
                let name = path.path.get_ident();
                self.0.extend(name.filter(|name| is_variable(name)));
            }
            Expr::Call(call) => {
                // The name of a function looks like the name of a variable.
                if !matches!(*call.func, Expr::Path(_)) {
                    self.visit_expr(&call.func);
                }
                for argument in &call.args {
                    self.visit_expr(argument);
                }
            }
            Expr::Async(_)
            | Expr::Block(_)
            | Expr::Closure(_)
            | Expr::Const(_)
            | Expr::ForLoop(_)
            | Expr::If(_)
            | Expr::Loop(_)
            | Expr::Match(_)
            | Expr::TryBlock(_)
            | Expr::Unsafe(_)
            | Expr::While(_) => {}
            _ => visit::visit_expr(self, expression),
        }
    }
}

fn is_variable(name: &Ident) -> bool {
    let name = name.to_string();
    let name = name.trim_start_matches("r#").trim_start_matches('_');
    name.starts_with(|first: char| !first.is_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_told_from_what_else_has_a_name() -> syn::Result<()> {
        for (code, expected) in [
            ("id", &["id"][..]),
            ("r#type", &["r#type"]),
            ("_id", &["_id"]),
            ("self.shop.name", &["self"]),
            ("order.id.max(other)", &["order", "other"]),
            ("&ids[index]", &["ids", "index"]),
            ("u64::from(id)?", &["id"]),
            ("name(id)", &["id"]),
            ("(order.name)(id)", &["order", "id"]),
            ("SHARD", &[]),
            ("_SHARD", &[]),
            ("Unit", &[]),
            ("shards::here", &[]),
            ("ids.iter().map(|it| it.id).sum::<u64>()", &["ids"]),
            ("if let Some(id) = id { id } else { 0 }", &[]),
            ("match id { id => id }", &[]),
            ("{ let id = 1; id }", &[]),
            ("stringify!(id)", &[]),
        ] {
            let expression: Expr = syn::parse_str(code)?;
            let names = unbound(&expression);
            let names: Vec<_> = names.into_iter().map(Ident::to_string).collect();
            assert_eq!(names, expected, "{code}");
        }
        Ok(())
    }
}
