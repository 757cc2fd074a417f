//! The error catalogue. Each code's anchor is the code itself: that is where `type` of a problem document leads.

use super::html::Html;
use crate::problem::Code;

/// Every code with its status, whether trying again helps, and what to do.
pub(super) fn section(page: &mut Html) {
    page.raw("<section id=\"errors\">\n<h2>Errors</h2>\n");
    page.element("p", |p| {
        p.prose("Every refusal is a problem document (RFC 9457, `application/problem+json`). Branch on `code`, show `detail`, and offer `hint`: it names the exact command or key that would change the answer.");
    });
    for code in Code::ALL {
        page.anchored("article", code.as_str(), |article| {
            article.raw("<h3>");
            article.code(code.as_str());
            article.raw(" <span class=\"status\">");
            article.text(code.status().as_str());
            article.raw("</span></h3>\n");
            article.element("p", |p| {
                p.text(code.title());
                p.text(". ");
                p.prose(code.advice());
            });
            if code.retryable() {
                article.raw("<p class=\"retry\">Retryable: the same request may succeed later.</p>\n");
            }
        });
    }
    page.raw("</section>\n");
}
