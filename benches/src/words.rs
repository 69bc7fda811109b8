//! A text to be counted.

/// A text of so many bytes or a few more: a few thousand words, some of which come often.
pub fn words(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 16);
    let mut state = 1_u32;
    while text.len() < bytes {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let word = (state >> 16) % 4096;
        text.push_str(&format!("w{}", word * word / 4096));
        text.push(if state >> 28 == 0 { '\n' } else { ' ' });
    }
    text
}
