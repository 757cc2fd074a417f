//! A property list for launchd.

use super::{MARK, ServiceSpec};

pub(super) const LABEL: &str = "dev.countersign.node";

/// The text of the property list.
pub(super) fn property_list(spec: &ServiceSpec) -> String {
    let ServiceSpec {
        manager: _,
        program,
        arguments,
        account: _,
        log,
    } = spec;
    let program = program.to_string_lossy();
    let words: Vec<String> = std::iter::once(program.as_ref())
        .chain(arguments.iter().map(String::as_str))
        .map(|word| format!("    <string>{}</string>\n", escaped(word)))
        .collect();
    let words = words.concat();
    let log = log
        .as_ref()
        .map(|path| {
            let path = escaped(&path.to_string_lossy());
            format!(
                "  <key>StandardOutPath</key>\n  <string>{path}</string>\n  \
                 <key>StandardErrorPath</key>\n  <string>{path}</string>\n"
            )
        })
        .unwrap_or_default();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \
         \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
         <!-- {MARK}. -->\n\
         <plist version=\"1.0\">\n\
         <dict>\n  <key>Label</key>\n  <string>{LABEL}</string>\n  \
         <key>ProgramArguments</key>\n  <array>\n{words}  </array>\n  \
         <key>RunAtLoad</key>\n  <true/>\n  \
         <key>KeepAlive</key>\n  <dict>\n    <key>SuccessfulExit</key>\n    <false/>\n  </dict>\n  \
         <key>ThrottleInterval</key>\n  <integer>5</integer>\n{log}</dict>\n\
         </plist>\n"
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        assert_eq!(escaped("a<b>&\"c\""), "a&lt;b&gt;&amp;&quot;c&quot;");
    }
}
