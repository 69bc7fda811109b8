//! Calls with any arguments to every method of every service's kernel half. None is left out.

use nile_abi::{CoreId, Instant, Status};
use nile_bosml::schema::Method;
use nile_bosml::{binary_to_text, check_binary, text_to_binary};
use nile_services::ALL;
use nile_stl::{Caller, Dispatched, MethodNumber, Origin};

use crate::input::Input;
use crate::node::{CORES, TestHost};

/// Calls of one input.
const MOST_CALLS: usize = 16;

/// Bits of a call's third byte.
const AS_TEXT: u8 = 1;
const BY_NAME: u8 = 2;
const ORIGIN: u8 = 3 << 2;

/// Calls, one after the other, of services on one core: which service, which method of it (or one
/// that it has not), in which form and from whom, how many bytes of arguments, and these. Accepted:
/// one gave a reply.
pub fn dispatch(bytes: &[u8]) -> bool {
    let host = TestHost::new();
    let (stl, places) = host.serve();
    let mut input = Input::new(bytes);
    let mut accepted = false;
    for _ in 0..MOST_CALLS {
        let Some([service, method, how, from, low, high]) = input.take() else { break };
        let arguments = input.most(usize::from(u16::from_le_bytes([low, high])));
        let at = usize::from(service) % ALL.len();
        let schema = ALL[at].interface.schema;
        // One number more than there are is a method that there is not.
        let number = usize::from(method) % (schema.methods.len() + 2);
        let known = schema.methods.get(number);
        let binary = match known {
            Some(method) if how & AS_TEXT != 0 => match from_text(method, arguments) {
                Some(binary) => binary,
                None => continue,
            },
            _ => arguments.to_vec(),
        };
        let result = match known {
            Some(method) if how & BY_NAME != 0 => {
                host.run(Box::pin(stl.invoke(ALL[at].name(), &method.name, &binary)))
            }
            _ => {
                let caller = Caller {
                    core: CoreId(u16::from(from) % CORES as u16),
                    origin: Origin::from_number((how & ORIGIN) >> 2).unwrap_or(Origin::Kernel),
                    deadline: Instant::START,
                };
                let number = match known {
                    None if number > schema.methods.len() => MethodNumber::DISCOVER,
                    _ => MethodNumber(number as u16),
                };
                let begun = stl.dispatch_at(places[at], &caller, number, &binary);
                match begun.expect("the service is installed") {
                    Dispatched::Done(result) => Some(result),
                    Dispatched::Later(future) => host.run(future),
                }
            }
        };
        match (result, known) {
            (Some(Ok(reply)), Some(method)) => {
                let named = (&*schema.name, &*method.name);
                assert_eq!(check_binary(&method.parameters, &binary), Ok(()), "{named:?}");
                assert_eq!(check_binary(&method.reply, &reply), Ok(()), "{named:?}");
                accepted = true;
            }
            (Some(Ok(document)), None) => assert!(document.len() > schema.name.len()),
            (Some(Err(error)), known) => {
                assert_ne!(error.status, Status::Ok);
                assert!(known.is_some() || error.status == Status::NotFound, "{error}");
            }
            // It waits for what does not come.
            (None, known) => assert!(known.is_some()),
        }
    }
    host.close(&stl);
    accepted
}

/// The arguments that a document means to a method, if it is one.
fn from_text(method: &Method<'_>, bytes: &[u8]) -> Option<Vec<u8>> {
    let text = str::from_utf8(bytes).ok()?;
    let binary = text_to_binary(&method.parameters, &method.name, text).ok()?;
    // Whoever shows a call to a person writes it as text again.
    let _ = binary_to_text(&method.parameters, &method.name, &binary);
    Some(binary)
}
