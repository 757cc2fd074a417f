//! A QR code for a phone that looks at the terminal.

use qrcode::{EcLevel, QrCode, render::unicode::Dense1x2};

/// The lines of the code for a link, dark on light with its margin; `None` where a code cannot hold the text.
pub(crate) fn lines(text: &str) -> Option<Vec<String>> {
    let code = QrCode::with_error_correction_level(text, EcLevel::L).ok()?;
    // Terminals are mostly dark: what is drawn is light.
    let drawn = code
        .render::<Dense1x2>()
        .dark_color(Dense1x2::Dark)
        .light_color(Dense1x2::Light)
        .quiet_zone(true)
        .build();
    Some(drawn.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_fits_a_terminal() {
        let link = format!("http://192.168.100.100:18790/login#code={}", "x".repeat(43));
        let lines = lines(&link).expect("a code");
        assert!(lines.len() <= 24, "{}", lines.len());
        assert!(lines.iter().all(|line| line.chars().count() <= 80));
        assert!(
            lines
                .iter()
                .all(|line| line.chars().all(|c| " \u{2580}\u{2584}\u{2588}".contains(c)))
        );
    }

    #[test]
    fn what_is_too_long_has_none() {
        assert_eq!(lines(&"x".repeat(10_000)), None);
    }
}
