//! Seals: every stream's head at one moment, bound by a Merkle root. Kept outside the store, a seal reveals
//! what a chain alone cannot: a tail that was cut off, or a chain that was rehashed.

use sha2::{Digest, Sha256};

use crate::text::hex;

/// The head of one stream.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct StreamHead {
    pub uid: String,
    pub version: u64,
    pub hash: String,
}

/// The Merkle root over heads sorted by uid. A leaf is `sha256("leaf\n" uid "\n" version "\n" hash "\n")`, a node
/// `sha256("node\n" left right)` over raw digests; an odd one moves up unchanged.
pub fn merkle_root(heads: &[StreamHead]) -> String {
    let mut level: Vec<[u8; 32]> = heads
        .iter()
        .map(|head| Sha256::digest(format!("leaf\n{}\n{}\n{}\n", head.uid, head.version, head.hash)).into())
        .collect();
    while level.len() > 1 {
        level = level
            .chunks(2)
            .map(|pair| match pair {
                [left, right] => Sha256::new()
                    .chain_update("node\n")
                    .chain_update(left)
                    .chain_update(right)
                    .finalize()
                    .into(),
                [odd] => *odd,
                _ => [0; 32],
            })
            .collect();
    }
    level.first().map(|root| hex(root)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn heads(n: u64) -> Vec<StreamHead> {
        (0..n)
            .map(|i| StreamHead { uid: format!("u{i:03}"), version: i + 1, hash: format!("h{i}") })
            .collect()
    }

    proptest! {
        #[test]
        fn any_change_to_any_head_changes_the_root(n in 1u64..40, at in 0u64..40, what in 0..4) {
            let before = heads(n);
            let mut after = before.clone();
            let i = usize::try_from(at % n).unwrap();
            match what {
                0 => after[i].version += 1,
                1 => after[i].hash.push('x'),
                2 => after[i].uid.push('x'),
                _ => { after.remove(i); }
            }
            prop_assert_ne!(merkle_root(&before), merkle_root(&after));
        }
    }
}
