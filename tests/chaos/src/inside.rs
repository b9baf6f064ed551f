//! The actions of a body under its lock.

use futures_util::future::BoxFuture;
use tokio::time::{sleep, timeout};

use crate::section::Section;
use crate::shape::Shape;

pub(crate) async fn steps(sections: &[Section], shape: Shape) {
    for _ in 0..shape.steps {
        for section in sections {
            section.step();
        }
        sleep(shape.pause).await;
    }
}

/// Re-enters the lock as often as the shape requires.
pub(crate) async fn levels(section: &mut Section, shape: Shape) {
    if shape.levels == 0 {
        return;
    }
    if shape.drops_inner {
        section.depth_is_known = false;
        drop(timeout(shape.pause, deeper(section, shape, 1)).await);
    }
    deeper(section, shape, 1).await;
    section.step();
}

/// Enters one level deeper, and continues to the last. A failure there is visible in the outermost entry too.
fn deeper(section: &Section, shape: Shape, level: u64) -> BoxFuture<'_, ()> {
    Box::pin(async move {
        let mut request = section.again();
        if shape.lengthens && level == shape.levels {
            request = request.ttl(section.site.client.topology.longest_ttl());
        }
        let inside = async {
            section.reentered();
            if level < shape.levels {
                deeper(section, shape, level + 1).await;
            } else {
                section.compare_depth().await;
                section.step();
            }
        };
        drop(request.run(inside).await);
    })
}
