//! `#[locked]` on every form of method, without a lint that the expansion causes.
#![deny(warnings, clippy::all)]
#![warn(clippy::pedantic)]

use std::rc::Rc;
use std::sync::Arc;

use async_trait::async_trait;
use reentry::{LockError, Locks, held, locked};

type Outcome<T = bool> = Result<T, LockError>;

fn holds(key: impl AsRef<str>) -> bool {
    held(key).is_some()
}

struct Shop {
    name: String,
    visits: Vec<u32>,
}

impl Shop {
    #[locked("shop:{self.name}")]
    async fn by_reference(&self, below: u32) -> Outcome {
        if below > 0 {
            self.by_reference(below - 1).await
        } else {
            Ok(holds("shop:corner"))
        }
    }

    #[locked("shop:{self.name}")]
    async fn by_mut(&mut self, visit: u32) -> Outcome {
        self.visits.push(visit);
        Ok(holds("shop:corner"))
    }

    #[locked("shop:{self.name}")]
    async fn by_value(mut self) -> Outcome<Self> {
        self.visits.clear();
        Ok(self)
    }

    #[locked("shop:{self.name}")]
    async fn by_arc(self: Arc<Self>) -> Outcome {
        Ok(holds(format!("shop:{}", self.name)))
    }
}

trait Native {
    async fn hand_over(&self, id: u32) -> Outcome;

    #[locked("native:{id}")]
    async fn provided(&self, id: u32) -> Outcome {
        Ok(self.hand_over(id).await? && holds(format!("native:{id}")))
    }
}

impl Native for Shop {
    #[locked("{Self::PREFIX}:{self.name}:{id}")]
    async fn hand_over(&self, id: u32) -> Outcome {
        Ok(holds(format!("{}:corner:{id}", Self::PREFIX)))
    }
}

impl Shop {
    const PREFIX: &str = "native";
}

#[async_trait]
trait Dynamic: Sync {
    async fn required(&self, id: u32, pair: (u32, u32), text: &str) -> Outcome;

    #[locked("dynamic:{id}")]
    async fn provided(&self, id: u32) -> Outcome {
        Ok(self.required(id, (1, 2), "x").await? && holds(format!("dynamic:{id}")))
    }
}

#[async_trait]
impl Dynamic for Shop {
    #[locked("dynamic:{self.name}:{left}:{text}")]
    async fn required(&self, mut id: u32, (left, mut right): (u32, u32), text: &str) -> Outcome {
        if id > 0 {
            id -= 1;
            right += 1;
            return self.required(id, (left, right), text).await;
        }
        Ok(holds(format!("dynamic:corner:{left}:{text}")))
    }
}

#[async_trait]
impl Dynamic for u32 {
    #[tracing::instrument(skip_all)]
    #[locked("dynamic:{self}:{pair:?}")]
    async fn required(&self, id: u32, pair: (u32, u32), text: &str) -> Outcome {
        Ok(holds(format!("dynamic:{self}:{pair:?}")) && (id > 0 || text.is_empty()))
    }
}

#[async_trait]
impl Dynamic for String {
    #[locked("dynamic:{self}:{text}")]
    #[tracing::instrument(skip_all, err)]
    async fn required(&self, id: u32, pair: (u32, u32), text: &str) -> Outcome {
        Ok(holds(format!("dynamic:{self}:{text}")) && pair.0 == id)
    }
}

#[async_trait(?Send)]
trait OnOneThread {
    async fn consume(self: Box<Self>, shared: Rc<u32>) -> Outcome;
}

#[async_trait(?Send)]
impl OnOneThread for Shop {
    #[locked("local:{self.name}:{shared}")]
    async fn consume(self: Box<Self>, shared: Rc<u32>) -> Outcome {
        tokio::task::yield_now().await;
        Ok(holds(format!("local:{}:{shared}", self.name)))
    }
}

fn shop() -> Shop {
    Shop {
        name: "corner".to_owned(),
        visits: Vec::new(),
    }
}

#[tokio::test]
async fn methods_run_under_their_lock() {
    let all = async {
        let mut shop = shop().by_value().await?;
        assert!(shop.by_reference(3).await? && shop.by_mut(1).await?);
        assert!(Native::provided(&shop, 1).await?);
        assert!(Arc::new(shop).by_arc().await?);
        Ok::<_, LockError>(())
    };
    Locks::in_memory().scope(all).await.unwrap();
}

#[tokio::test]
async fn methods_under_async_trait_run_under_their_lock() {
    let all = async {
        let all: [Box<dyn Dynamic>; 3] =
            [Box::new(shop()), Box::new(5), Box::new("text".to_owned())];
        for each in all {
            assert!(each.provided(1).await?);
        }
        assert!(Box::new(shop()).consume(Rc::new(1)).await?);
        Ok::<_, LockError>(())
    };
    Locks::in_memory().scope(all).await.unwrap();
}
