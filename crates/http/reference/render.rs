//! Fills `page.html` in. Shared by the build and the tests of the page.

use minijinja::{Environment, Error, Value, context, syntax::SyntaxConfig, value::Serde};

/// The page from the contract and the text of the catalogue of errors. All that is filled in is escaped.
pub(crate) fn render(contract: serde_json::Value, errors: &str) -> Result<String, Error> {
    let codes: Vec<Value> = errors.lines().filter_map(row).collect();
    let mut environment = Environment::new();
    environment.set_syntax(
        SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()?,
    );
    let values = context! { contract => Serde(contract), codes };
    environment.render_named_str("page.html", include_str!("page.html"), values)
}

/// A row of the catalogue.
fn row(line: &str) -> Option<Value> {
    let cells: Vec<&str> = line
        .strip_prefix("| ")?
        .strip_suffix(" |")?
        .split(" | ")
        .collect();
    let [status, code, title, again, advice] = *cells.as_slice() else {
        return None;
    };
    let code = code.strip_prefix('`')?.strip_suffix('`')?;
    Some(context! { status, code, title, again, advice => advice.replace("\\|", "|") })
}
