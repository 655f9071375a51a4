//! Messages of Protocol Buffers: fields of numbers and of bytes.

/// A message.
#[derive(Clone, Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value as u8 & 0x7F) | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// A field of a number.
    pub(super) fn number(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    /// A field of bytes, a text or a message.
    pub(super) fn bytes(mut self, field: u64, value: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend(value);
        self
    }

    pub(super) fn message(self, field: u64, value: &Self) -> Self {
        self.bytes(field, &value.0)
    }

    /// A field of several numbers.
    pub(super) fn numbers(self, field: u64, values: &[u64]) -> Self {
        if values.is_empty() {
            return self;
        }
        let mut packed = Self::default();
        for &value in values {
            packed.varint(value);
        }
        self.message(field, &packed)
    }

    /// The message after its length.
    pub(super) fn delimited(self) -> Vec<u8> {
        let mut all = Self::default();
        all.varint(self.0.len() as u64);
        all.0.extend(self.0);
        all.0
    }
}

/// An attribute of a node, by the fields of `AttributeProto`. Chakra's reader of traces looks for
/// each attribute in one field, and finds 0 where it stands in another.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Int32(u64),
    Int64(u64),
    Uint64(u64),
    Bool(bool),
    Bools(Vec<bool>),
    Text(String),
}

pub(super) fn attribute(name: &str, value: &Value) -> Message {
    let message = Message::default().bytes(1, name.as_bytes());
    match value {
        Value::Int32(number) => message.number(7, *number),
        Value::Int64(number) => message.number(9, *number),
        Value::Uint64(number) => message.number(13, *number),
        Value::Bool(is) => message.number(27, u64::from(*is)),
        Value::Bools(all) => {
            let all: Vec<u64> = all.iter().map(|&is| u64::from(is)).collect();
            message.message(28, &Message::default().numbers(1, &all))
        }
        Value::Text(text) => message.bytes(29, text.as_bytes()),
    }
}
