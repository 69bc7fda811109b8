//! Packages: ELF files, their manifests, and the archives that carry them.

use nile_package::Package;
use nile_package::archive::{files, is_archive};
use nile_platform::user::Access;

/// Takes a package's file, or an archive of files: the plan that comes of it can be followed
/// blindly.
pub fn package(bytes: &[u8]) -> bool {
    if is_archive(bytes) {
        let mut end = 0;
        for file in files(bytes) {
            let Ok(file) = file else { return false };
            assert!(file.at >= end && file.at + 512 + file.contents.len() <= bytes.len());
            end = file.at + 512 + file.contents.len();
        }
        return true;
    }
    let Ok(package) = Package::parse(bytes) else { return false };
    let mut end = 0;
    for segment in package.segments() {
        assert!(segment.pages.start >= end, "segments share a page");
        assert!(segment.pages.start % 4096 == 0 && segment.pages.end % 4096 == 0);
        assert!(segment.pages.start <= segment.start);
        assert!(segment.start + segment.contents.len() as u64 <= segment.pages.end);
        end = segment.pages.end;
    }
    assert!(end == package.bytes() && end <= nile_package::MAX_IMAGE_BYTES);
    let holds = |access, from: u64, bytes: u64| {
        package.segments().iter().any(|segment| {
            let pages = &segment.pages;
            segment.access == access && pages.start <= from && from + bytes <= pages.end
        })
    };
    assert!(holds(Access::Execute, package.entry(), 1));
    for relocation in package.relocations() {
        assert!(holds(Access::Write, relocation.place, 8));
        assert!(relocation.addend <= package.bytes());
    }
    let manifest = package.manifest();
    assert!(manifest.publishes().all(|name| manifest.may_publish(name)));
    true
}
