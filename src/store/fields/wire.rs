//! Writes protobuf messages field by field, without a message in between: a record of a lock is written with each
//! grant, and to make a message of its lease and encode that took 2.5 times the instructions. What is written is read
//! as the messages that describe it, which write the same bytes.

use prost::Message;
use uuid::Uuid;

/// How a field is written, in the lowest three bits of its key.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH_DELIMITED: u32 = 2;

/// Bytes of each of the two numbers of an id that is not 0, with its key.
const ID_NUMBER_BYTES: u8 = 9;

/// A message that is being written. Its fields are written in the order of their tags; one that has its default takes
/// no room.
pub(in crate::store) struct Wire<'a>(pub(in crate::store) &'a mut Vec<u8>);

impl Wire<'_> {
    /// A number as a varint.
    #[inline]
    pub(in crate::store) fn number(&mut self, tag: u32, number: impl Into<u64>) {
        let number = number.into();
        if number != 0 {
            self.present(tag, number);
        }
    }

    /// The same where 0 is not the default.
    #[inline]
    pub(in crate::store) fn present(&mut self, tag: u32, number: u64) {
        self.key(tag, VARINT);
        self.varint(number);
    }

    #[inline]
    pub(in crate::store) fn fixed(&mut self, tag: u32, number: u64) {
        if number != 0 {
            self.key(tag, FIXED64);
            self.0.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// Numbers of eight bytes each, packed.
    pub(in crate::store) fn packed(&mut self, tag: u32, numbers: impl ExactSizeIterator<Item = u64>) {
        if numbers.len() > 0 {
            self.key(tag, LENGTH_DELIMITED);
            self.varint(8 * numbers.len() as u64);
            numbers.for_each(|number| self.0.extend_from_slice(&number.to_le_bytes()));
        }
    }

    #[inline]
    pub(in crate::store) fn text(&mut self, tag: u32, text: &str) {
        if !text.is_empty() {
            self.item(tag, text);
        }
    }

    /// One text of several, which may be empty.
    pub(in crate::store) fn item(&mut self, tag: u32, text: &str) {
        self.key(tag, LENGTH_DELIMITED);
        self.varint(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    /// An id, as an [`Id`](super::Id).
    #[inline]
    pub(in crate::store) fn id(&mut self, tag: u32, id: Uuid) {
        let (high, low) = id.as_u64_pair();
        self.key(tag, LENGTH_DELIMITED);
        if high == 0 || low == 0 {
            self.0.push(ID_NUMBER_BYTES * (u8::from(high != 0) + u8::from(low != 0)));
            self.fixed(1, high);
            self.fixed(2, low);
            return;
        }
        let mut bytes = [2 * ID_NUMBER_BYTES, 1 << 3 | 1, 0, 0, 0, 0, 0, 0, 0, 0, 2 << 3 | 1, 0, 0, 0, 0, 0, 0, 0, 0];
        bytes[2..10].copy_from_slice(&high.to_le_bytes());
        bytes[11..].copy_from_slice(&low.to_le_bytes());
        self.0.extend_from_slice(&bytes);
    }

    /// The same of an id that is often nil, which then takes no room.
    #[inline]
    pub(in crate::store) fn id_unless_nil(&mut self, tag: u32, id: Uuid) {
        if !id.is_nil() {
            self.id(tag, id);
        }
    }

    /// A message within this one, whose fields `write` writes.
    #[inline]
    pub(in crate::store) fn nested(&mut self, tag: u32, write: impl FnOnce(&mut Wire<'_>)) {
        self.key(tag, LENGTH_DELIMITED);
        let mut at = self.0.len();
        self.0.push(0);
        write(&mut Wire(self.0));
        // Its length comes before it, in one byte if it is short.
        let mut length = (self.0.len() - at - 1) as u64;
        while length >= 0x80 {
            self.0[at] = (length & 0x7f) as u8 | 0x80;
            length >>= 7;
            at += 1;
            self.0.insert(at, 0);
        }
        self.0[at] = (length & 0x7f) as u8;
    }

    /// A message within this one that is made already: for what few records have.
    pub(in crate::store) fn message(&mut self, tag: u32, message: &impl Message) {
        prost::encoding::message::encode(tag, message, self.0);
    }

    #[inline]
    fn key(&mut self, tag: u32, kind: u32) {
        self.varint(u64::from(tag << 3 | kind));
    }

    #[inline]
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.0.push((number & 0x7f) as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::fields::Id;
    use proptest::{collection::vec, option, prelude::*};

    #[derive(Clone, PartialEq, prost::Message)]
    #[prost(skip_debug)]
    struct Outer {
        #[prost(message, optional, tag = "1")]
        inner: Option<Inner>,
        #[prost(uint64, optional, tag = "2047")]
        number: Option<u64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    #[prost(skip_debug)]
    struct Inner {
        #[prost(uint64, tag = "1")]
        number: u64,
        #[prost(fixed64, tag = "15")]
        fixed: u64,
        #[prost(fixed64, repeated, tag = "16")]
        packed: Vec<u64>,
        #[prost(string, tag = "17")]
        text: String,
        #[prost(string, repeated, tag = "18")]
        items: Vec<String>,
        #[prost(message, optional, tag = "19")]
        id: Option<Id>,
        #[prost(message, optional, tag = "20")]
        id_unless_nil: Option<Id>,
        #[prost(bool, tag = "21")]
        flag: bool,
    }

    fn written(outer: &Outer) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut it = Wire(&mut bytes);
        if let Some(inner) = &outer.inner {
            it.nested(1, |it| {
                it.number(1, inner.number);
                it.fixed(15, inner.fixed);
                it.packed(16, inner.packed.iter().copied());
                it.text(17, &inner.text);
                inner.items.iter().for_each(|item| it.item(18, item));
                if let Some(id) = inner.id {
                    it.id(19, id.read());
                }
                it.id_unless_nil(20, inner.id_unless_nil.map(Id::read).unwrap_or_default());
                it.number(21, inner.flag);
            });
        }
        if let Some(number) = outer.number {
            it.present(2047, number);
        }
        bytes
    }

    #[test]
    fn the_length_of_a_message_takes_as_many_bytes_as_it_needs() {
        for length in [0, 1, 123, 124, 125, 127, 128, 16_378, 16_379, 16_380, 16_383, 16_384, 2_097_152] {
            let inner = Inner { text: "x".repeat(length), ..Inner::default() };
            let outer = Outer { inner: Some(inner), number: Some(0) };
            assert_eq!(written(&outer), outer.encode_to_vec(), "{length}");
        }
    }

    fn numbers() -> impl Strategy<Value = u64> {
        prop_oneof![Just(0), 0..300_u64, any::<u64>()]
    }

    proptest! {
        #[test]
        fn fields_are_written_as_a_message_writes_them(
            (number, fixed, flag) in (numbers(), numbers(), any::<bool>()),
            (packed, text, items) in (vec(numbers(), 0..20), "\\PC{0,9}", vec("\\PC{0,200}", 0..4)),
            id in option::of((numbers(), numbers())),
            id_unless_nil in option::of((1..u64::MAX, numbers())),
            outer in option::of(numbers()),
        ) {
            let id_of = |id: Option<(u64, u64)>| id.and_then(|(high, low)| Id::of(Uuid::from_u64_pair(high, low)));
            let (id, id_unless_nil) = (id_of(id), id_of(id_unless_nil));
            let inner = Inner { number, fixed, packed, text, items, id, id_unless_nil, flag };
            let outer = Outer { inner: Some(inner), number: outer };
            prop_assert_eq!(written(&outer), outer.encode_to_vec());
        }
    }
}
