/* Transactions that keepers of one node share (orders/convoy.go), for Spin: two sales of two units, with an order for one
 * of them in each queue.
 *
 * sale.pml has what a keeper does otherwise. Here is what it means to have a batch committed in company: by somebody else's
 * transaction, which may leave it out, fail, or commit without an answer. Meanwhile another node takes one sale over,
 * somebody stops with a row locked, and Redis loses what it had of the sale that is taken over.
 *
 * What stands in atomic{} is ONE statement, transaction or script; between two of them everybody else may act.
 */
c_decl {
  static int param(const char *name, int otherwise) { char *v = getenv(name); return v ? atoi(v) : otherwise; }
}

/* The broken twins: the right design less one guard each. */
#define MEMBERS_UNFENCED     1 /* a shared transaction does not compare the fence of each member */
#define FENCED_TOGETHER      2 /* or it fails, for all, where one is fenced off */
#define LOCKS_AWAITED        3 /* it waits for rows that somebody else has locked */
#define LEFT_OUT_IS_DONE     4 /* who was left out does not go by itself */
#define FAILED_IS_DONE       5 /* what was judged is believed, though nothing was committed */
#define VERDICTS_CLOSE_UP    6 /* of those that went along, and not one for each member */
#define COUNTED_AGAIN        7 /* an order that is known already counts once more */
byte twin;
#define IS(t) (twin == t)

#define BIT(i) (1 << (i))
#define FENCE  1                 /* of this node's keepers */
#define TAKEN  1                 /* the sale that another node takes over */

/* ---- MySQL ---- */
byte mFence[2] = FENCE, mSold[2]; byte mRow; /* a bit for each order that is there */
byte mLocked, stuck;                         /* rows; those that stay so */

/* ---- Redis: two on sale, one of them held for the order in the queue ---- */
byte rAvailable[2] = 1, rFence[2] = FENCE, rQueue = 3; bit rLost; /* of TAKEN */

/* ---- the convoy ---- */
byte waiting, done, verdicts;                /* a bit for each traveller */
byte refused;                                /* by FENCED_TOGETHER */

byte told;                                   /* orders answered with 201 */
bit forgot; byte losses = 1;                 /* Redis lost the order of TAKEN; answers that may yet be lost */

/* ledger.judge and sell, under the row's lock */
inline carry(i) {
  mSold[i] = mSold[i] + (!(mRow & BIT(i)) || IS(COUNTED_AGAIN)); mRow = mRow | BIT(i)
}
inline carryShares() {
  if :: (shares & 1) -> carry(0) :: else fi;
  if :: (shares & 2) -> carry(1) :: else fi
}
#define UNLOCKED(i) (!(mLocked & BIT(i)))
#define KEEPS(i)    (mFence[i] == FENCE)
#define TELL(m)     told = told | (m); assert((told & ~mRow) == 0) /* no yes is lost */

/* convoy.carry */
inline carryGroup() {
  atomic { !IS(LOCKS_AWAITED) || !(mLocked & group) -> /* Store.lockFree: SKIP LOCKED */
    shares = group & ~mLocked; held = shares; mLocked = mLocked | held };
  atomic {
    fenced = (group & held & ((!KEEPS(0)) | (!KEEPS(1)) << 1));
    shares = shares & ~(IS(MEMBERS_UNFENCED) -> 0 : fenced);
    if
    :: IS(FENCED_TOGETHER) && fenced != 0 -> shares = 0
    :: else ->
       if
       :: carryShares()
       :: losses > 0 -> losses--; carryShares(); shares = 0             /* committed, and no answer */
       :: losses > 0 -> losses--; shares = (IS(FAILED_IS_DONE) -> shares : 0) /* rolled back: a member's context has ended */
       fi;
       fenced = 0
    fi;
    mLocked = mLocked & ~held };
  atomic {
    verdicts = verdicts & ~group | (IS(VERDICTS_CLOSE_UP) && shares == 2 && group == 3 -> 1 : shares);
    refused = refused | (fenced != 0 -> group : 0);
    done = done | group; group = 0; shares = 0; held = 0; fenced = 0 }
}

/* The rest of keeper.drain: what is committed is told and taken off the queue. */
proctype Keeper(bit i) {
  byte group, shares, held, fenced;
pass:
  atomic {
    if
    :: rQueue & BIT(i) -> waiting = waiting | BIT(i); done = done & ~BIT(i) /* Gate.Queue; convoy.commit */
    :: !(rQueue & BIT(i)) -> goto gone
    fi };
end_waiting:
  if
  :: atomic { waiting != 0 -> group = waiting; waiting = 0 };               /* convoy.take */
     if
     :: atomic { group == BIT(i) -> verdicts = verdicts & ~BIT(i); done = done | BIT(i); group = 0 }
     :: group != BIT(i);
end_locking:
        carryGroup()
     fi
  :: done & BIT(i)
  :: atomic { !KEEPS(i) && (waiting & BIT(i)) -> waiting = waiting & ~BIT(i); goto gone } /* convoy.leave */
  fi;
end_taken:
  if
  :: atomic { (done & BIT(i)) && (refused & BIT(i)) -> goto gone }
  :: atomic { (done & BIT(i)) && !(refused & BIT(i)) && ((verdicts & BIT(i)) || IS(LEFT_OUT_IS_DONE)) -> TELL(verdicts & BIT(i)) }
  :: atomic { (done & BIT(i)) && !(refused & BIT(i)) && !(verdicts & BIT(i)) && !IS(LEFT_OUT_IS_DONE) };
end_alone:
     if                                                                     /* Store.Commit */
     :: atomic { UNLOCKED(i) && KEEPS(i) -> carry(i); TELL(BIT(i)) }
     :: atomic { UNLOCKED(i) && KEEPS(i) && losses > 0 -> losses--; carry(i); goto pass }
     :: atomic { UNLOCKED(i) && !KEEPS(i) -> goto gone }
     fi
  fi;
  atomic {                                                                  /* Gate.Settle */
    if
    :: rFence[i] <= FENCE -> rQueue = rQueue & ~BIT(i)
    :: else
    fi };
gone:
}

/* The other node's keeper of TAKEN. */
proctype Rival() {
  byte onSale;
end_takeOver:
  atomic { UNLOCKED(TAKEN) -> mFence[TAKEN] = FENCE + 1 };                  /* Store.TakeOver */
  atomic { rFence[TAKEN] = FENCE + 1 };                                     /* Gate.Claim */
  do
  :: (rQueue & BIT(TAKEN)) ->
end_commit:
     atomic { UNLOCKED(TAKEN) -> carry(TAKEN); TELL(BIT(TAKEN)) };          /* Store.Commit */
     atomic { rQueue = rQueue & ~BIT(TAKEN) }                               /* Gate.Settle */
  :: !(rQueue & BIT(TAKEN)) -> break
  od;
  if
  :: rLost ->
end_recount:
     atomic { UNLOCKED(TAKEN) -> onSale = 2 - mSold[TAKEN] };               /* Store.Recount */
     atomic { rAvailable[TAKEN] = onSale; rLost = 0 }                       /* Gate.Install */
  :: else
  fi
}

/* Somebody locks a row, and stops: for a while, or for good. */
proctype Stopped(bit i) {
  atomic { UNLOCKED(i) -> mLocked = mLocked | BIT(i); stuck = BIT(i) };
  if
  :: atomic { mLocked = mLocked & ~BIT(i); stuck = 0 }
  :: true
  fi
}

proctype Redis() {
  if
  :: atomic { forgot = (rQueue & BIT(TAKEN)) != 0; rQueue = rQueue & ~BIT(TAKEN); rAvailable[TAKEN] = 0; rFence[TAKEN] = 0; rLost = 1 }
  :: true
  fi
}

/* Once nobody goes on, but who waits for a row that stays locked. */
inline rests(i) {
  if
  :: stuck & BIT(i)
  :: else ->
     assert((mRow & BIT(i)) || i == TAKEN && forgot);                       /* nobody was held up by another */
     assert(!(rQueue & BIT(i)));
     assert(rLost && i == TAKEN || rAvailable[i] + mSold[i] == 2)           /* every unit is sold or on sale, and once */
  fi
}

proctype Rest() {
  atomic { timeout -> rests(0); rests(1) }
}

init {
  atomic {
    c_code { now.twin = param("TWIN", 0); };
    run Keeper(0); run Keeper(1); run Rival(); run Redis();
    if :: run Stopped(0) :: run Stopped(1) fi;
    run Rest()
  }
}
