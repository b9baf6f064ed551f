//! Key templates: text with expressions in braces. The expressions are not parsed here.

use std::ops::Range;

use crate::scan::scan;

/// The parts of a template.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Template<'a> {
    /// The format string: the text with `{}` or `{:spec}` for each placeholder.
    pub(crate) format: String,
    /// The expressions, in order.
    pub(crate) expressions: Vec<Expression<'a>>,
}

/// The expression in one pair of braces, without its format spec.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Expression<'a> {
    pub(crate) code: &'a str,
    /// The byte range of the expression in the template.
    pub(crate) range: Range<usize>,
}

/// A mistake in a template, and its position.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Flaw {
    pub(crate) message: String,
    pub(crate) range: Range<usize>,
}

fn flaw(message: impl Into<String>, range: Range<usize>) -> Flaw {
    Flaw {
        message: message.into(),
        range,
    }
}

impl<'a> Template<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, Flaw> {
        let mut template = Self {
            format: String::new(),
            expressions: Vec::new(),
        };
        let mut at = 0;
        while let Some(brace) = text[at..].find(['{', '}']).map(|offset| at + offset) {
            let (before, rest) = (&text[at..brace], &text[brace..]);
            template.format.push_str(before);
            if rest.starts_with("{{") || rest.starts_with("}}") {
                template.format.push_str(&rest[..2]);
                at = brace + 2;
            } else if rest.starts_with('}') {
                let message = "unmatched `}` in the key template; write `}}` for a brace";
                return Err(flaw(message, brace..brace + 1));
            } else {
                at = template.placeholder(text, brace)?;
            }
        }
        template.format.push_str(&text[at..]);
        Ok(template)
    }

    /// Reads the placeholder whose `{` is at `open`. Returns the offset after it.
    fn placeholder(&mut self, text: &'a str, open: usize) -> Result<usize, Flaw> {
        let Some(end) = scan(text, open + 1) else {
            let message = "unclosed `{` in the key template; write `{{` for a brace";
            return Err(flaw(message, open..text.len()));
        };
        let code = text[open + 1..end.code].trim();
        let spec = &text[end.code..end.brace];
        if code.is_empty() {
            let message = "empty placeholder in the key template; name an argument in the braces";
            return Err(flaw(message, open..end.brace + 1));
        }
        // With each of these, `format!` would read further arguments, which a template does not have.
        if spec.contains('$') || spec.contains(".*") || spec.contains('{') {
            let message =
                format!("`{spec}`: a width or precision in a key template must be a number");
            return Err(flaw(message, end.code..end.brace));
        }
        self.expressions.push(Expression {
            code,
            range: open + 1..end.code,
        });
        self.format.push('{');
        self.format.push_str(spec);
        self.format.push('}');
        Ok(end.brace + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Result<(String, Vec<&str>), Flaw> {
        let template = Template::parse(text)?;
        for Expression { code, range } in &template.expressions {
            assert_eq!(text[range.clone()].trim(), *code);
        }
        let codes = template
            .expressions
            .iter()
            .map(|expression| expression.code)
            .collect();
        Ok((template.format, codes))
    }

    #[test]
    fn a_placeholder_holds_any_expression() {
        for (text, format, codes) in [
            ("order:{id}", "order:{}", &["id"][..]),
            ("{ a.b }:{c[0]}", "{}:{}", &["a.b", "c[0]"]),
            ("{f(|x: u8| x)}", "{}", &["f(|x: u8| x)"]),
            ("{a::b::<C>(d)}", "{}", &["a::b::<C>(d)"]),
            ("{S { x: 1 }.x}", "{}", &["S { x: 1 }.x"]),
            (
                "{m[\"}\"]}{m[\"\\\"}\"]}",
                "{}{}",
                &["m[\"}\"]", "m[\"\\\"}\"]"],
            ),
            (
                "{m[r#\"\"}\"#]}{r#type}",
                "{}{}",
                &["m[r#\"\"}\"#]", "r#type"],
            ),
            (
                "{m['}']}{m['\\'']}{m['\\u{7d}']}",
                "{}{}{}",
                &["m['}']", "m['\\'']", "m['\\u{7d}']"],
            ),
            ("{f::<'a, T>(x)}", "{}", &["f::<'a, T>(x)"]),
            ("straße:{größe}", "straße:{}", &["größe"]),
        ] {
            assert_eq!(
                parts(text),
                Ok((format.to_owned(), codes.to_vec())),
                "{text}"
            );
        }
    }

    #[test]
    fn doubled_braces_are_text() {
        assert_eq!(parts("{{a}}:{b}"), Ok(("{{a}}:{}".to_owned(), vec!["b"])));
        assert_eq!(
            parts("{{user:{id}}}"),
            Ok(("{{user:{}}}".to_owned(), vec!["id"]))
        );
    }

    #[test]
    fn the_first_single_colon_begins_the_format_spec() {
        assert_eq!(parts("{id:08}"), Ok(("{:08}".to_owned(), vec!["id"])));
        assert_eq!(parts("{a::B:>4}"), Ok(("{:>4}".to_owned(), vec!["a::B"])));
        assert_eq!(
            parts("{id:?}:{id:x}"),
            Ok(("{:?}:{:x}".to_owned(), vec!["id", "id"]))
        );
    }

    #[test]
    fn a_flaw_names_its_place() {
        for (text, range) in [
            ("a:{id", 2..5),
            ("a:{id)}", 2..7),
            ("a:{f(id}", 2..8),
            ("a:{m[\"}", 2..7),
            ("a:{id:8", 2..7),
            ("a:}", 2..3),
            ("a:{}b", 2..4),
            ("a:{ :8}", 2..7),
            ("a:{id:w$}", 5..8),
            ("a:{id:.*}", 5..8),
        ] {
            assert_eq!(
                Template::parse(text).map_err(|flaw| flaw.range),
                Err(range),
                "{text}"
            );
        }
    }

    #[test]
    fn no_text_makes_the_scan_panic() {
        let alphabet = ["{", "}", "'", "\\", "\"", "r", "#", ":", "(", ")", "ü", "a"];
        for number in 0..alphabet.len().pow(5) {
            let digit = |place: u32| number / alphabet.len().pow(place) % alphabet.len();
            let text: String = (0..5).map(|place| alphabet[digit(place)]).collect();
            let _ = Template::parse(&format!("{{{text}"));
        }
    }
}
