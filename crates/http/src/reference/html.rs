//! HTML that is escaped by its type: text goes in as text, and only literals of ours as markup.

/// A piece of HTML.
#[derive(Debug, Default)]
pub(super) struct Html(String);

impl Html {
    /// Adds markup, which only a literal can be.
    pub(super) fn raw(&mut self, markup: &'static str) {
        self.0.push_str(markup);
    }

    pub(super) fn text(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                other => self.0.push(other),
            }
        }
    }

    /// Adds text in which backticks enclose code.
    pub(super) fn prose(&mut self, text: &str) {
        for (index, part) in text.split('`').enumerate() {
            if index % 2 == 1 {
                self.code(part);
            } else {
                self.text(part);
            }
        }
    }

    /// Adds text as code.
    pub(super) fn code(&mut self, text: &str) {
        self.raw("<code>");
        self.text(text);
        self.raw("</code>");
    }

    /// Adds a link with text.
    pub(super) fn link(&mut self, to: &str, text: &str) {
        self.raw("<a href=\"");
        self.text(to);
        self.raw("\">");
        self.text(text);
        self.raw("</a>");
    }

    /// Adds an element around what `fill` writes, on lines of its own.
    pub(super) fn element(&mut self, name: &'static str, fill: impl FnOnce(&mut Self)) {
        self.raw("<");
        self.raw(name);
        self.raw(">");
        fill(self);
        self.raw("</");
        self.raw(name);
        self.raw(">\n");
    }

    /// Adds an element that can be linked to.
    pub(super) fn anchored(&mut self, name: &'static str, id: &str, fill: impl FnOnce(&mut Self)) {
        self.raw("<");
        self.raw(name);
        self.raw(" id=\"");
        self.text(id);
        self.raw("\">");
        fill(self);
        self.raw("</");
        self.raw(name);
        self.raw(">\n");
    }

    /// Adds a table that scrolls by itself on a narrow screen.
    pub(super) fn table(&mut self, header: &[&'static str], rows: impl FnOnce(&mut Self)) {
        self.raw("<div class=\"table\" tabindex=\"0\" role=\"group\" aria-label=\"Table\">\n<table>\n<thead>\n<tr>");
        for name in header {
            self.raw("<th scope=\"col\">");
            self.raw(name);
            self.raw("</th>");
        }
        self.raw("</tr>\n</thead>\n<tbody>\n");
        rows(self);
        self.raw("</tbody>\n</table>\n</div>\n");
    }

    /// The text of it.
    pub(super) fn into_text(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_backticks_are_code() {
        let mut html = Html::default();
        html.prose("a `<b>` & \"c\"");
        html.link("#x\"y", "<z>");
        assert_eq!(
            html.into_text(),
            "a <code>&lt;b&gt;</code> &amp; &quot;c&quot;<a href=\"#x&quot;y\">&lt;z&gt;</a>"
        );
    }
}
