//! Counters with one label, whose values are an enum.

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use std::marker::PhantomData;

/// The values of a label.
pub trait Label: Copy + 'static {
    /// The name of the label.
    const NAME: &'static str;
    /// All values, in the order of [`Self::index`].
    const ALL: &'static [Self];

    /// The place in [`Self::ALL`].
    fn index(self) -> usize;

    /// The value as text.
    fn text(self) -> &'static str;
}

/// Defines the enum of a label.
macro_rules! label {
    ($(#[$about:meta])* $name:ident = $label:literal { $($(#[$of:meta])* $value:ident = $text:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$of])* $value,)+
        }

        impl $crate::telemetry::metrics::label::Label for $name {
            const NAME: &'static str = $label;
            const ALL: &'static [Self] = &[$(Self::$value,)+];

            fn index(self) -> usize {
                self as usize
            }

            fn text(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)+
                }
            }
        }
    };
}
pub(super) use label;

/// One counter or gauge for each value of a label, all of which are exported from the start.
#[derive(Debug)]
pub struct ByLabel<L, M> {
    each: Box<[M]>,
    label: PhantomData<L>,
}

/// Counters by a label.
pub type Counters<L> = ByLabel<L, Counter>;
/// Gauges by a label.
pub type Gauges<L> = ByLabel<L, Gauge>;

impl<L: Label> Counters<L> {
    pub(super) fn register(registry: &mut Registry, name: &str, help: &str) -> Self {
        let family = Family::<[(&'static str, &'static str); 1], Counter>::default();
        registry.register(name, help, family.clone());
        let each = L::ALL.iter().map(|value| family.get_or_create_owned(&[(L::NAME, value.text())]));
        Self { each: each.collect(), label: PhantomData }
    }
}

impl<L: Label> Gauges<L> {
    pub(super) fn register(registry: &mut Registry, name: &str, help: &str) -> Self {
        let family = Family::<[(&'static str, &'static str); 1], Gauge>::default();
        registry.register(name, help, family.clone());
        let each = L::ALL.iter().map(|value| family.get_or_create_owned(&[(L::NAME, value.text())]));
        Self { each: each.collect(), label: PhantomData }
    }
}

impl<L: Label, M> ByLabel<L, M> {
    /// The one of this value.
    pub fn of(&self, value: L) -> &M {
        &self.each[value.index()]
    }
}
