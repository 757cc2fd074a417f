//! Whether paths and names compare with their case or without (M6).

/// How path and name patterns compare (M6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum PathCase {
    /// With their case, exactly.
    #[default]
    Sensitive,
    /// By simple case folding on both sides.
    Insensitive,
}

impl PathCase {
    /// The form in which two texts are equal exactly if they compare so.
    pub fn key(self, text: &str) -> String {
        match self {
            Self::Sensitive => text.to_owned(),
            Self::Insensitive => fold(text),
        }
    }
}

/// Simple case folding, one character to one character.
pub(crate) fn fold(text: &str) -> String {
    text.chars().map(fold_character).collect()
}

fn fold_character(character: char) -> char {
    // Dotless i only folds to itself, although its capital is an I.
    if character == 'ı' {
        return character;
    }
    let single = |mut characters: &mut dyn Iterator<Item = char>| {
        let first = (&mut characters).next();
        first.filter(|_| characters.next().is_none())
    };
    let upper = single(&mut character.to_uppercase()).unwrap_or(character);
    single(&mut upper.to_lowercase()).unwrap_or(upper)
}
