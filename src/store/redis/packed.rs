//! What `cmsgpack.pack` makes of a script's answer, read back: numbers, texts and lists.

use crate::node::Value;

/// Lists in lists: those of the scripts are three deep.
const DEPTH_MAX: usize = 8;

/// All values that stand there one after the other; nothing, if that is not what stands there.
pub(super) fn unpack(mut bytes: &[u8]) -> Option<Vec<Value>> {
    let mut values = Vec::with_capacity(3);
    while !bytes.is_empty() {
        values.push(value(&mut bytes, 0)?);
    }
    Some(values)
}

fn value(bytes: &mut &[u8], depth: usize) -> Option<Value> {
    let kind = number::<1>(bytes)?;
    Some(match kind {
        0x00..=0x7f => Value::Int(i64::try_from(kind).ok()?),
        0xe0..=0xff => Value::Int(i64::try_from(kind).ok()? - 0x100),
        0xa0..=0xbf => text(bytes, kind & 0x1f)?,
        0x90..=0x9f => list(bytes, kind & 0x0f, depth)?,
        0xc0 => Value::Nil,
        0xcc => Value::Int(i64::try_from(number::<1>(bytes)?).ok()?),
        0xcd => Value::Int(i64::try_from(number::<2>(bytes)?).ok()?),
        0xce => Value::Int(i64::try_from(number::<4>(bytes)?).ok()?),
        0xcf => Value::Int(i64::try_from(number::<8>(bytes)?).ok()?),
        0xd0 => Value::Int(signed::<1>(bytes)?),
        0xd1 => Value::Int(signed::<2>(bytes)?),
        0xd2 => Value::Int(signed::<4>(bytes)?),
        0xd3 => Value::Int(signed::<8>(bytes)?),
        0xd9 => number::<1>(bytes).and_then(|length| text(bytes, length))?,
        0xda => number::<2>(bytes).and_then(|length| text(bytes, length))?,
        0xdb => number::<4>(bytes).and_then(|length| text(bytes, length))?,
        0xdc => number::<2>(bytes).and_then(|length| list(bytes, length, depth))?,
        0xdd => number::<4>(bytes).and_then(|length| list(bytes, length, depth))?,
        _ => return None,
    })
}

/// The next `N` bytes as a number, the highest first.
fn number<const N: usize>(bytes: &mut &[u8]) -> Option<u64> {
    let (these, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(these.iter().fold(0, |number, byte| (number << 8) | u64::from(*byte)))
}

fn signed<const N: usize>(bytes: &mut &[u8]) -> Option<i64> {
    let above = u32::try_from(64 - 8 * N).ok()?;
    Some((number::<N>(bytes)? << above).cast_signed() >> above)
}

fn text(bytes: &mut &[u8], length: u64) -> Option<Value> {
    let (these, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    *bytes = rest;
    Some(Value::BulkString(these.to_vec()))
}

fn list(bytes: &mut &[u8], length: u64, depth: usize) -> Option<Value> {
    if depth == DEPTH_MAX {
        return None;
    }
    // Each value takes a byte at least, so a length that is not true makes no room for it.
    let length = usize::try_from(length).ok().filter(|length| *length <= bytes.len())?;
    (0..length).map(|_| value(bytes, depth + 1)).collect::<Option<_>>().map(Value::Array)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Arg;

    #[test]
    fn what_is_packed_here_is_read_here() {
        let mut packed = Vec::new();
        let long = "x".repeat(300);
        for arg in [Arg::from(7_u32), Arg::from(1_u64 << 52), Arg::from("text"), Arg::from(&long)] {
            arg.pack(&mut packed);
        }
        let text = |text: &str| Value::BulkString(text.into());
        let values = [Value::Int(7), Value::Int(1 << 52), text("text"), text(&long)];
        assert_eq!(unpack(&packed).unwrap(), values);
        assert_eq!(
            unpack(b"\x92\x01\x91\xa1a\xff").unwrap(),
            [Value::Array(vec![Value::Int(1), Value::Array(vec![text("a")])]), Value::Int(-1)]
        );
        assert_eq!(
            unpack(b"\xd0\xff\xd1\xff\xfe\xd3\xff\xff\xff\xff\xff\xff\xff\xfd").unwrap(),
            [-1, -2, -3].map(Value::Int)
        );
    }

    #[test]
    fn what_makes_no_sense_is_not_read() {
        for bytes in [
            &b"\xa5abc"[..],
            b"\xdd\xff\xff\xff\xff",
            b"\xc1",
            b"\xcf\x00",
            b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
            &[0x91; 20],
        ] {
            assert_eq!(unpack(bytes), None, "{bytes:?}");
        }
    }
}
