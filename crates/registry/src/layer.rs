//! The three layers of services, and who may bind which (Dhara, III.D): a layer uses itself and
//! the one just below it, so that a layer can be replaced without disturbing those further up.

use core::fmt;

use nile_stl_macros::Record;

/// How far a service type is from the hardware.
#[derive(Record, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[record(crate = nile_bosml)]
pub enum Layer {
    /// What applications use: scheduling and paging policies, stores, jobs.
    #[default]
    High,
    /// What the high layer is made of: timers, interrupts.
    Low,
    /// What hardware or a device does.
    Micro,
}

impl Layer {
    /// Every layer, the highest first.
    pub const ALL: [Layer; 3] = [Layer::High, Layer::Low, Layer::Micro];

    /// The layer just below.
    pub fn below(self) -> Option<Layer> {
        match self {
            Layer::High => Some(Layer::Low),
            Layer::Low => Some(Layer::Micro),
            Layer::Micro => None,
        }
    }

    /// The name that tools print.
    pub fn name(self) -> &'static str {
        match self {
            Layer::High => "high",
            Layer::Low => "low",
            Layer::Micro => "micro",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Who wants to bind or call.
#[derive(Record, Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[record(crate = nile_bosml)]
pub enum Caller {
    /// A person at the command line: reaches every layer.
    Operator,
    /// A user application: stands above the high layer.
    User,
    /// A service of this layer.
    Service(Layer),
}

impl Caller {
    /// Whether the caller may bind services of `layer`. Fails if it would skip a layer, or reach
    /// up.
    pub fn may_bind(self, layer: Layer) -> Result<(), LayerError> {
        let allowed = match self {
            Caller::Operator => true,
            Caller::User => layer == Layer::High,
            Caller::Service(own) => layer == own || own.below() == Some(layer),
        };
        if allowed { Ok(()) } else { Err(LayerError { caller: self, layer }) }
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Caller::Operator => f.write_str("the operator"),
            Caller::User => f.write_str("a user application"),
            Caller::Service(layer) => write!(f, "a service of layer {layer}"),
        }
    }
}

/// A caller may not bind services of this layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LayerError {
    /// Who asked.
    pub caller: Caller,
    /// The layer of what was to be bound.
    pub layer: Layer,
}

impl fmt::Display for LayerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LayerError { caller, layer } = self;
        match caller {
            Caller::Operator => write!(f, "{caller} may bind every layer"),
            Caller::User => {
                write!(f, "{caller} may bind layer high only, and skips layers to reach {layer}")
            }
            Caller::Service(own) if *own > *layer => {
                write!(f, "{caller} may not bind layer {layer}, which is above it")
            }
            Caller::Service(_) => {
                write!(f, "{caller} may bind its own and the one below, and skips one to {layer}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_caller_reaches_its_own_layer_and_the_one_below() {
        let reached = |caller: Caller| Layer::ALL.map(|layer| caller.may_bind(layer).is_ok());
        assert_eq!(reached(Caller::Operator), [true, true, true]);
        assert_eq!(reached(Caller::User), [true, false, false]);
        assert_eq!(reached(Caller::Service(Layer::High)), [true, true, false]);
        assert_eq!(reached(Caller::Service(Layer::Low)), [false, true, true]);
        assert_eq!(reached(Caller::Service(Layer::Micro)), [false, false, true]);
    }

    #[test]
    fn skipping_a_layer_is_said_with_both_layers() {
        let error = Caller::Service(Layer::High).may_bind(Layer::Micro).unwrap_err();
        let said = error.to_string();
        assert!(said.contains("high") && said.contains("micro") && said.contains("skips"));
        let said = Caller::User.may_bind(Layer::Low).unwrap_err().to_string();
        assert!(said.contains("high") && said.contains("low") && said.contains("skips"));
        let said = Caller::Service(Layer::Low).may_bind(Layer::High).unwrap_err().to_string();
        assert!(said.contains("low") && said.contains("high") && said.contains("above"));
    }
}
