//! What one registry holds at most. Descriptions come from packages and other nodes; each of these
//! is checked where a description enters, and has its own error.

/// Service types that one layer registers in its life; the numbers of types are not reused.
pub const MAX_TYPES: usize = 4096;

/// How many types a type extends: its parent, that one's, and so on.
pub const MAX_ANCESTORS: usize = 8;

/// Instances that are published at one time, over all layers.
pub const MAX_INSTANCES: usize = 32_768;

/// Bytes of a name: of a type, subsystem, capability, instance, attribute or keyword.
pub const MAX_NAME: usize = 64;

/// Bytes of a description, and of an attribute value that is text.
pub const MAX_TEXT: usize = 1024;

/// Attributes of one instance, of a type's state, or of one bind.
pub const MAX_ATTRIBUTES: usize = 32;

/// Keywords of one instance.
pub const MAX_KEYWORDS: usize = 16;

/// Keywords of one query.
pub const MAX_QUERY_KEYWORDS: usize = 16;

/// Methods of one type's profile.
pub const MAX_METHODS: usize = 256;

/// Subjects' bindings at one time, over all types.
pub const MAX_BINDINGS: usize = 65_536;

/// Watchers at one time.
pub const MAX_WATCHERS: usize = 256;

/// Events that can wait for one watcher.
pub const MAX_WATCH_QUEUE: usize = 4096;

/// Parts of one composition, those of nested ones included.
pub const MAX_PARTS: usize = 64;

/// How deep compositions nest.
pub const MAX_DEPTH: usize = 8;
