//! Policies that were expelled: their instances say why, on their node and on others.

use alloc::string::ToString;

use nile_interfaces::registry::{NamedValue, Publication};
use nile_registry::{EXPELLED, InstanceId};
use nile_stl::{CallResult, Place};

use super::{Inner, State, missing};

impl State {
    /// Notes that the policy which an instance is was expelled, and why.
    pub fn expel(&self, place: Place, why: &str) -> CallResult<()> {
        let inner = &mut *self.0.borrow_mut();
        let id = inner.id_at(place)?;
        inner.registry.expel(id, why).map_err(|_| missing())?;
        if let Some(it) = inner.unknown_elsewhere.get_mut(&id) {
            it.attributes.retain(|it| it.name != EXPELLED);
            it.attributes.push(NamedValue::written(EXPELLED, why));
        }
        inner.changed();
        Ok(())
    }
}

impl Inner {
    /// Notes what another node says of the expulsion of a policy of its own.
    pub(super) fn learn_expelled(&mut self, id: InstanceId, publication: &Publication) {
        let is_here = self.places.get(&id).is_none_or(Place::is_here);
        let said = publication.attributes.iter().find(|it| it.name == EXPELLED);
        let Some(why) = said.filter(|_| !is_here).map(|it| it.value.to_string()) else { return };
        let known = self.registry.instance(id).and_then(|it| it.text(EXPELLED));
        if known != Some(&why) {
            // It is there, as it was just found.
            let _ = self.registry.expel(id, &why);
            self.changed();
        }
    }
}
