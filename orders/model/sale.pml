/* The protocol between the gate (Redis), the truth (MySQL) and the keepers, for Spin: one sale, up to three orders.
 *
 * Each atomic{} is one script, one transaction or one read of the code, which a comment names. Between two of them any
 * other process may act, and any process may stop forever. Keepers die, resume, lose answers, and overlap at any time. The
 * model has no lock, because no promise may depend on it. Redis may go back once, to an earlier state or to nothing.
 *
 * The parameters and the number of a broken twin come from the environment, so one compiled search serves all of them.
 */
c_decl {
  static int param(const char *name, int otherwise) { char *v = getenv(name); return v ? atoi(v) : otherwise; }
}

/* The broken twins: the right design without one guard each. */
#define NO_FENCE                   1 /* MySQL does not compare fences */
#define NO_EPOCH                   2 /* scripts and keepers do not compare epochs */
#define NO_HOLD_CHECK              3 /* a release does not check for the hold */
#define NO_STATUS_CONDITION        4 /* closing reads the status and then writes it */
#define NO_CONDITIONAL_SALE        5 /* the keeper inserts every order that the gate has accepted */
#define NO_LIMIT_CHECK             6 /* the keeper does not check the buyer's limit again */
#define NO_KEY_CHECK               7 /* the keeper does not check the idempotency key again */
#define NO_CLAIM_CHECK             8 /* the keeper does not check whether a late payment has a refund claim */
#define ONE_UNIT_RESERVED          9 /* the gate takes one unit, whatever the quantity */
#define ONE_UNIT_RELEASED         10 /* the gate releases one unit, whatever the quantity */
#define ANSWERED_BEFORE_COMMIT    11 /* a queued order is answered with 201 */
#define QUEUE_EMPTIED             12 /* an acknowledgement removes the whole queue, not only its batch */
#define MARKED_BEFORE_RELEASE     13 /* an order is marked released before the gate has released it */
#define MARKED_UNANSWERED         14 /* an order is marked although the release got no answer */
#define NOT_SHUT                  15 /* a rebuild leaves the gate open */
#define NOT_DRAINED               16 /* a rebuild does not drain the queue */
#define SHUT_GATE_KEPT            17 /* a gate that is found shut is not rebuilt */
#define INSTALLED_UNCONDITIONALLY 18 /* a rebuild opens the gate without a condition */
#define INSTALLED_BY_EPOCH        19 /* a rebuild opens the gate if only its epoch is older */
#define SUMS_ONLY                 20 /* orders and buyers are not compared one by one */
#define TERMS_BY_NODE             21 /* the node that changes the total adds the difference to the gate */
#define TERMS_OVERWRITTEN         22 /* the gate receives the units that the database has left, although orders are queued */
#define LATE_PAST_GATE            23 /* the database marks an expired order paid, without the gate */
#define LATE_UNRELEASED           24 /* a late payment is reserved before the order's first hold is released */
#define DIRECT_PAST_STATE         25 /* a direct order does not check that the sale is in direct mode */
#define INSTALLED_OVER_ANOTHER    26 /* a rebuild opens a gate that another keeper has shut */
byte twin;
#define IS(t) (twin == t)

/* Parameters: init reads them, README.md explains them. */
byte nOrders, quantity[3], limit, ann, late;
byte takes, crashes, changes, asks;          /* counted down */
bit sweeps, rolls, inOrder, sameKey, direct;

/* Sets of orders and holds: BIT(i) is order i and its hold, LATE(i) the hold of its late payment. */
#define BIT(i)   (1 << (i))
#define LATE(i)  (16 << (i))
#define UNITS(m) (quantity[0] * (((m) & 1) + (((m) >> 4) & 1)) + quantity[1] * ((((m) >> 1) & 1) + (((m) >> 5) & 1)) + \
                  quantity[2] * ((((m) >> 2) & 1) + (((m) >> 6) & 1)))
#define ANNS(m)  ((m) & (ann | (ann << 4)))

/* ---- MySQL: orders/store/migrations ---- */
byte mTotal, mSold, mFence, mEpoch = 1; bit mDirect;
byte mRow, mOpen, mPaid;       /* orders with a row; pending or paid orders; paid orders */
byte mExpired, mRejected;      /* all other closed orders are cancelled */
byte mRestored;                /* restored_at is set */
byte mLate;                    /* paid late: hold_id is set */
byte mRefund;                  /* orders with a refund claim */
#define CLOSED_  (mRow & ~mOpen)
#define PENDING  (mOpen & ~mPaid)
#define ENDED    (mRow & ~mRestored & (~mOpen | mPaid))  /* Store.UnreleasedOrders */
#define RESTORING (CLOSED_ & ~mRestored)                 /* Store.Sums */

/* ---- Redis: inventory/internal/keys ---- */
#define MISSING 0
#define SHUT    1
#define OPEN    2
byte rState, rEpoch, rTotal, rHolds, rQueue, rAnn; short rAvailable; bit rKey;
/* the earlier state that Redis may go back to */
byte bState, bEpoch, bTotal, bHolds, bQueue, bAnn; short bAvailable; bit bKey;

/* ---- the promises ---- */
byte answered; /* orders answered with 201 */
bit wentBack;  /* Redis has gone back since the gate was last installed */
bit stray;     /* a keeper with an old fence has changed the gate since it was last installed */
#define GATES_TOTAL (IS(TERMS_BY_NODE) -> mTotal : rTotal)
#define UNKNOWN (rQueue & ~mRow & ~(mLate << 4))  /* queued holds that MySQL has not sold yet */
#define NEVER_TOO_MANY assert(wentBack || rState != OPEN || rEpoch != mEpoch || rAvailable + UNITS(UNKNOWN) + mSold <= GATES_TOTAL)
#define NEVER_OVERSOLD assert(mSold <= mTotal && mSold == UNITS(mOpen) && UNITS(ANNS(mOpen)) <= limit)
#define NEVER_BOTH     assert((mLate & mRefund) == 0)

byte turn, alive, earlier = 2; bit over; /* earlier: the number of keepers before the last one */
bit began;   /* an earlier keeper has taken over. Both are alike, so only the first may begin, which halves the states */

/* reserve.lua */
#define MAY_SELL(i, h) (rState == OPEN && quantity[i] <= rAvailable && (!(ann & BIT(i)) || rAnn + quantity[i] <= limit) && \
                        !(h == BIT(i) && sameKey && rKey && (i == 0 || i == nOrders - 1)))
inline reserve(i, h) {
  if
  :: MAY_SELL(i, h) ->
     rAvailable = rAvailable - (IS(ONE_UNIT_RESERVED) -> 1 : quantity[i]);
     rAnn = rAnn + (ann & BIT(i) -> quantity[i] : 0);
     rHolds = rHolds | h; rQueue = rQueue | h;
     rKey = (rKey || h == BIT(0) || h == BIT(nOrders - 1));
     NEVER_TOO_MANY
  :: true /* the gate refuses, or the request is lost */
  fi
}

/* Store.close and closeEach: one conditional update, which also decreases sold */
inline closed(i, expired) {
  mOpen = mOpen & ~BIT(i); mSold = mSold - quantity[i]; mExpired = mExpired | (expired -> BIT(i) : 0); NEVER_OVERSOLD
}
inline close(i, expired) {
  if
  :: atomic { !IS(NO_STATUS_CONDITION) && (PENDING & BIT(i)) -> closed(i, expired) }
  :: !(PENDING & BIT(i))
  :: IS(NO_STATUS_CONDITION) && (PENDING & BIT(i)) -> atomic { closed(i, expired) }
  fi
}

proctype Buyer(byte i) {
  if
  :: direct && i == nOrders - 1 ->
     /* one update enters direct mode, and each direct order is conditional on the mode */
     if
     :: atomic { !over && !IS(DIRECT_PAST_STATE) -> mFence++; mEpoch++; mDirect = 1 }
     :: true
     fi;
     atomic {
       if
       :: (mDirect || IS(DIRECT_PAST_STATE)) && mSold + quantity[i] <= mTotal && !(mRow & BIT(i)) &&
          (!(ann & BIT(i)) || UNITS(ANNS(mOpen)) + quantity[i] <= limit) ->
          mRow = mRow | BIT(i); mOpen = mOpen | BIT(i); mSold = mSold + quantity[i]; answered = answered | BIT(i); NEVER_OVERSOLD; NEVER_TOO_MANY
       :: true
       fi
     }
  :: else -> atomic { (!inOrder || turn == i) -> turn = turn + inOrder; reserve(i, BIT(i)) }
  fi;
  if
  :: (mOpen & BIT(i)) -> close(i, false)                             /* Store.Cancel */
  :: atomic { (PENDING & BIT(i)) -> mPaid = mPaid | BIT(i) }         /* Store.Pay */
  :: (late & mExpired & BIT(i)) ->                                   /* Service.takeUnitsAndPay */
     if
     :: IS(LATE_PAST_GATE) ->
        atomic {
          if
          :: (mExpired & BIT(i)) && mSold + quantity[i] <= mTotal ->
             mExpired = mExpired & ~BIT(i); mOpen = mOpen | BIT(i); mPaid = mPaid | BIT(i); mRestored = mRestored & ~BIT(i);
             mSold = mSold + quantity[i]
          :: else
          fi
        }
     :: else ->
        if
        :: (mRestored & BIT(i)) || IS(LATE_UNRELEASED) -> atomic { true -> reserve(i, LATE(i)) } /* holdAgain */
        :: true
        fi;
        if
        :: ((mPaid | mRefund) & BIT(i)) /* Store.Payment: decided */
        :: atomic { true ->             /* Store.RecordClaim, under the lock on the sale's row */
             if
             :: !((mOpen | mRefund) & BIT(i)) -> mRefund = mRefund | BIT(i)
             :: else
             fi; NEVER_BOTH }
        fi
     fi
  :: true
  fi;
  alive--
}

/* Store.Expire, on some node */
proctype Sweeper() {
  do
  :: (PENDING & 1) -> close(0, true)
  :: (PENDING & 2) -> close(1, true)
  :: (PENDING & 4) -> close(2, true)
  :: break
  od;
  alive--
}

proctype Operator() {
  do
  :: atomic { changes > 0 -> changes--; mTotal++ };                  /* Store.PutSale: a restock */
     if
     :: IS(TERMS_BY_NODE) -> atomic { rAvailable++ }
     :: else
     fi
  :: atomic { changes > 0 && mTotal > mSold && !IS(TERMS_BY_NODE) -> changes--; mTotal-- } /* a cut */
  :: atomic { asks > 0 -> asks--; mEpoch++ }                         /* Store.RequestRebuild */
  :: break
  od;
  alive--
}

/* Redis goes back to an earlier state (a replica without the last writes), or to nothing. */
proctype Redis() {
  if
  :: atomic { rolls -> bState = rState; bEpoch = rEpoch; bTotal = rTotal; bHolds = rHolds; bQueue = rQueue; bAnn = rAnn;
       bAvailable = rAvailable; bKey = rKey };
     atomic {
       if
       :: rState = bState; rEpoch = bEpoch; rTotal = bTotal; rHolds = bHolds; rQueue = bQueue; rAnn = bAnn;
          rAvailable = bAvailable; rKey = bKey; wentBack = 1
       :: true
       fi;
       bState = 0; bEpoch = 0; bTotal = 0; bHolds = 0; bQueue = 0; bAnn = 0; bAvailable = 0; bKey = 0 }
  :: atomic { rolls -> rState = MISSING; rEpoch = 0; rTotal = 0; rHolds = 0; rQueue = 0; rAnn = 0; rAvailable = 0; rKey = 0; wentBack = 1 }
  :: true
  fi;
  alive--
}

/* ---- the keeper: orders/keeper ---- */

/* In place of a step, or after it and before its answer, the keeper dies and may take over again, or it loses the answer and
 * runs another pass. */
#define OR_NOT \
  :: atomic { !last && crashes > 0 -> crashes--; goto start } \
  :: atomic { !last && crashes > 0 -> crashes--; goto pass }

#define KEEPS (mFence == f || IS(NO_FENCE))                             /* lockSaleAs */
#define KNOWN (rState != MISSING && (rEpoch == e || IS(NO_EPOCH)))      /* epoch.lua, out_of_epoch */
#define NOTED stray = (stray || mFence != f)                            /* the gate has no fence, so it obeys an old keeper */

/* release_units.lua */
inline release(holds) {
  rAvailable = rAvailable + (IS(ONE_UNIT_RELEASED) -> ((holds & rHolds) != 0) : (IS(NO_HOLD_CHECK) -> UNITS(holds) : UNITS(holds & rHolds)));
  rAnn = rAnn - UNITS(ANNS(holds & rHolds));
  rHolds = rHolds & ~(holds)
}

/* Ledger.Decide */
inline decide(i) {
  if
  :: (b & BIT(i)) && (mRow & BIT(i)) -> /* decided before */
     back = back | (CLOSED_ & BIT(i));
     mRestored = mRestored & ~(mPaid & BIT(i))
  :: (b & BIT(i)) && !(mRow & BIT(i)) ->
     if
     :: sameKey && !IS(NO_KEY_CHECK) && (i == 0 && (mRow & BIT(nOrders - 1)) || i == nOrders - 1 && (mRow & BIT(0))) -> back = back | BIT(i)
     :: else ->
        mRow = mRow | BIT(i);
        if
        :: (mSold + quantity[i] <= mTotal || IS(NO_CONDITIONAL_SALE)) &&
           (!(ann & BIT(i)) || UNITS(ANNS(mOpen)) + quantity[i] <= limit || IS(NO_LIMIT_CHECK)) ->
           mOpen = mOpen | BIT(i); mSold = mSold + quantity[i]; answered = answered | BIT(i)
        :: else -> mRejected = mRejected | BIT(i)
        fi
     fi
  :: else
  fi
}

/* Ledger.decidePayment */
inline decidePayment(i) {
  if
  :: !(b & LATE(i)) -> skip
  :: (b & LATE(i)) && (mLate & BIT(i)) -> mRestored = mRestored & ~BIT(i)
  :: (b & LATE(i)) && !(mLate & BIT(i)) ->
     if
     :: (mRefund & BIT(i)) && !IS(NO_CLAIM_CHECK) || (mOpen & BIT(i)) || !(mRow & BIT(i)) -> back = back | LATE(i)
     :: else ->
        if
        :: (mExpired & BIT(i)) && ((mRestored & BIT(i)) || IS(LATE_UNRELEASED)) && mSold + quantity[i] <= mTotal &&
           (!(ann & BIT(i)) || UNITS(ANNS(mOpen)) + quantity[i] <= limit) ->
           mOpen = mOpen | BIT(i); mPaid = mPaid | BIT(i); mLate = mLate | BIT(i); mSold = mSold + quantity[i];
           mExpired = mExpired & ~BIT(i); mRestored = mRestored & ~BIT(i) /* payAnew */
        :: else -> mRefund = mRefund | BIT(i); back = back | LATE(i)
        fi
     fi;
     NEVER_BOTH
  fi
}

/* KeeperGate.Ack, ack.lua: removes the previous batch */
inline ack() {
  if
  :: atomic { true -> NOTED; release(sBack); rQueue = (IS(QUEUE_EMPTIED) -> 0 : rQueue & ~s); s = 0; sBack = 0 }
  OR_NOT
  fi
}

/* Keeper.drain: a batch is committed while the previous batch is removed from the queue */
inline drain(rebuilding) {
  do
  :: atomic { (rQueue & ~s) != 0 -> b = rQueue & ~s; answered = answered | (IS(ANSWERED_BEFORE_COMMIT) -> b & 7 : 0) }; /* KeeperGate.ReadQueue */
     if
     :: atomic { KEEPS -> /* Store.Commit; then the callers are answered */
          decide(0); decide(1); decide(2);
          decidePayment(0); decidePayment(1); decidePayment(2);
          marked = (back == 0 && marked);
          NEVER_OVERSOLD; NEVER_TOO_MANY }
     :: atomic { !KEEPS -> goto start }
     OR_NOT
     fi;
     if
     :: s != 0 -> ack(); atomic { s = b; sBack = back; b = 0; back = 0 }
     :: atomic { s == 0 -> s = b; sBack = back; b = 0; back = 0 }
     fi
  :: s != 0 -> ack()
  :: s == 0 && (rQueue == 0 || rebuilding && (IS(NOT_DRAINED) || IS(NOT_SHUT))) -> break
  od
}

/* Keeper.rebuild */
inline rebuild() {
  do
  :: atomic { e = rEpoch; was = e; marked = 0; rebuilt = rebuilt + last; assert(rebuilt <= 6) }; /* KeeperGate.Summaries; the last keeper rebuilds a bounded number of times */
     if
     :: atomic { true -> NOTED; rState = (KNOWN && !IS(NOT_SHUT) -> SHUT : rState) } /* KeeperGate.BeginRebuild, begin_rebuild.lua */
     OR_NOT
     fi;
     drain(true);
     if
     :: atomic { KEEPS -> /* Store.BeginEpoch */
          mEpoch = (mEpoch < e -> e : mEpoch) + 1; e = mEpoch; mDirect = 0;
          cHolds = PENDING; cAvailable = mTotal - mSold; cTotal = mTotal; cAnn = UNITS(ANNS(mOpen));
          mRestored = mRestored | ENDED }
     :: atomic { !KEEPS -> goto start }
     OR_NOT
     fi;
     if
     :: atomic { true -> /* KeeperGate.Install, install.lua */
          if
          :: IS(INSTALLED_UNCONDITIONALLY) ||
             IS(INSTALLED_BY_EPOCH) && rEpoch < e ||
             (rEpoch == was || IS(INSTALLED_OVER_ANOTHER) && rEpoch < e) && (IS(NOT_SHUT) || rState != OPEN) && (IS(NOT_SHUT) || IS(NOT_DRAINED) || rQueue == 0) ->
             rState = OPEN; rEpoch = e; rTotal = cTotal; rAvailable = cAvailable; rHolds = cHolds; rAnn = cAnn;
             wentBack = 0; stray = (mFence != f); marked = 1; NEVER_TOO_MANY; goto pass
          :: else ->
             cHolds = 0; cAvailable = 0; cTotal = 0; cAnn = 0; e = 0; was = 0;
             if
             :: last
             :: !last -> goto pass /* the next pass rebuilds again */
             fi
          fi }
     OR_NOT
     fi
  od
}

proctype Keeper(bit last, second) {
  byte f;                        /* the keeper's fence */
  byte b, back, s, sBack;        /* a batch and the holds of it to release; the same for the previous batch */
  byte x, xPaid, e, was;         /* closed and paid orders to release; an epoch; the gate's epoch when its rebuild began */
  byte cHolds, cQueue, cTotal, cAnn; short cAvailable; /* values that were read from either store */
  bit marked, off, alone; byte rebuilt;
start:
  atomic {
    f = 0; b = 0; back = 0; s = 0; sBack = 0; x = 0; xPaid = 0; e = 0; was = 0; cHolds = 0; cQueue = 0; cTotal = 0; cAnn = 0; cAvailable = 0; marked = 0; off = 0;
    if
    :: last -> mFence++; f = mFence                                  /* Store.TakeOver */
    :: !last && !over && takes > 0 && (began || !second) -> began = 1; takes--; mFence++; f = mFence
    :: !last -> goto gone
    fi
  };
pass: /* Keeper.pass; steps may be skipped, because a pass does only the work that it is asked for */
  atomic { b = 0; back = 0; s = 0; sBack = 0; x = 0; xPaid = 0; e = 0; was = 0; cHolds = 0; cQueue = 0; cTotal = 0; cAnn = 0; cAvailable = 0; off = 0; alone = 0;
    if
    :: !last -> goto gone
    :: true
    fi };
  drain(false);

  if
  :: atomic { ENDED == 0 -> marked = 1 }
  :: !last -> goto compare
  :: atomic { ENDED != 0 -> /* Store.UnreleasedOrders */
       e = mEpoch; marked = 0; x = ENDED & ~mPaid; xPaid = ENDED & mPaid; xPaid = xPaid | ((xPaid & mLate) << 4);
       mRestored = mRestored | (IS(MARKED_BEFORE_RELEASE) -> x : 0) };
     if
     :: x == 0
     :: atomic { x != 0 && KNOWN -> NOTED; release(x) } /* KeeperGate.ReleaseHolds, release.lua */
     :: atomic { x != 0 && !KNOWN -> goto compare }
     :: atomic { x != 0 && IS(MARKED_UNANSWERED) && crashes > 0 -> crashes-- }
     OR_NOT
     fi;
     if
     :: xPaid == 0
     :: atomic { xPaid != 0 && KNOWN -> NOTED; rHolds = rHolds & ~xPaid } /* KeeperGate.DropHolds, drop_holds.lua */
     :: atomic { xPaid != 0 && !KNOWN -> goto compare }
     OR_NOT
     fi;
     if
     :: atomic { KEEPS -> mRestored = mRestored | x | (xPaid & 7); marked = 1; x = 0; xPaid = 0; e = 0 } /* Store.MarkOrdersReleased */
     :: atomic { !KEEPS -> goto start }
     OR_NOT
     fi
  fi;

compare: /* Keeper.inspect */
  atomic {
    x = 0; xPaid = 0;
    if
    :: !last -> e = 0; goto reconcile
    :: e = mEpoch; cTotal = mTotal; cAvailable = (IS(TERMS_OVERWRITTEN) -> mTotal - mSold : 0) /* Store.Sale */
    fi };
  if
  :: atomic { (rState != OPEN && !(IS(SHUT_GATE_KEPT) && rState == SHUT) || rEpoch != e && !IS(NO_EPOCH)) -> cTotal = 0; cAvailable = 0 }; /* KeeperGate.Summaries */
     rebuild()
  :: atomic { (rState == OPEN || IS(SHUT_GATE_KEPT) && rState == SHUT) && (rEpoch == e || IS(NO_EPOCH)) && GATES_TOTAL == cTotal -> alone = (earlier == 0) }
  :: atomic { rState == OPEN && (rEpoch == e || IS(NO_EPOCH)) && GATES_TOTAL != cTotal };
     if
     :: atomic { KNOWN -> NOTED; /* KeeperGate.SetTerms, terms.lua */
          rAvailable = (IS(TERMS_OVERWRITTEN) -> cAvailable : rAvailable + cTotal - rTotal); rTotal = cTotal }
     :: atomic { !KNOWN -> goto pass }
     OR_NOT
     fi
  fi;

reconcile: /* Keeper.check, with all orders and buyers */
  if
  :: !last -> goto pass
  :: atomic { !marked || rState != OPEN -> assert(!alone || rState == OPEN) }; goto pass /* without other keepers, no other process shuts the gate */
  :: atomic { marked && rState == OPEN -> /* KeeperGate.Tally, inspect.lua */
       e = rEpoch; cAvailable = GATES_TOTAL - rAvailable - UNITS(rQueue); cHolds = rHolds; cQueue = rQueue; cAnn = rAnn;
       cTotal = rTotal }
  fi;
  atomic {
    if
    :: !KEEPS -> goto start
    :: else
    fi;
    if
    :: mEpoch != e && !IS(NO_EPOCH) -> goto pass
    :: else
    fi;
    /* Store.Sums, OrdersByHold and OrdersAtGate; drift.symptom */
    off = (cAvailable != mSold + UNITS(RESTORING)
      || !IS(SUMS_ONLY) && ((cHolds & ~cQueue & ~(mRow & ~mRestored | (mLate & ~mRestored) << 4)) != 0
        || (PENDING & ~cHolds) != 0
        || cAnn != UNITS(ANNS(mOpen | mRow & ~mRestored)) + UNITS(ANNS(cQueue))));
    assert(!off || wentBack || stray); /* drift needs a Redis that went back, or an old keeper */
    cAvailable = 0; cHolds = 0; cQueue = 0; cAnn = 0; cTotal = 0; e = 0
  };
  if
  :: off -> off = 0; rebuild()
  :: !off && !last -> goto pass
  :: !off && last
  fi;

  if
  :: !alone -> (earlier == 0); goto pass
  :: alone && (rQueue != 0 || ENDED != 0 || mTotal != GATES_TOTAL) -> goto pass
  :: else
  fi;
  /* nothing is in progress */
  atomic {
    assert(rState == OPEN && (rEpoch == mEpoch || IS(NO_EPOCH)) && GATES_TOTAL == mTotal);
    assert(rAvailable + mSold == mTotal);           /* no unit is stranded or on sale twice */
    assert(rHolds == PENDING);                      /* each pending order has a hold, and no other order has one */
    assert(rAnn == UNITS(ANNS(mOpen)));             /* the buyer's count is right */
    assert((answered & ~(mRow & ~mRejected)) == 0);     /* no 201 is lost */
    assert(!sameKey || (mRow & (BIT(0) | BIT(nOrders - 1))) != (BIT(0) | BIT(nOrders - 1))); /* a key has one order */
    NEVER_OVERSOLD; NEVER_BOTH
  };
gone:
  atomic {
    if
    :: !last -> f = 0; b = 0; s = 0; marked = 0; earlier--
    :: last
    fi
  }
}

init {
  atomic {
    c_code {
      now.twin = param("TWIN", 0);
      now.nOrders = param("ORDERS", 2);
      now.quantity[0] = param("Q0", 1); now.quantity[1] = param("Q1", 1); now.quantity[2] = param("Q2", 1);
      now.mTotal = param("TOTAL", 1);
      now.limit = param("LIMIT", 9); now.ann = param("ANN", 0);
      now.takes = param("TAKES", 1); now.crashes = param("CRASHES", 0);
      now.changes = param("CHANGES", 0); now.asks = param("ASKS", 0);
      now.late = param("LATE", 0);
      now.sweeps = param("SWEEPS", 0); now.rolls = param("ROLLS", 0);
      now.inOrder = param("IN_ORDER", 0); now.sameKey = param("SAME_KEY", 0); now.direct = param("DIRECT", 0);
    };
    rState = OPEN; rEpoch = 1; rTotal = mTotal; rAvailable = mTotal;
    run Buyer(0);
    if :: nOrders > 1 -> run Buyer(1) :: else fi;
    if :: nOrders > 2 -> run Buyer(2) :: else fi;
    alive = nOrders;
    if :: sweeps -> alive++; run Sweeper() :: else fi;
    if :: rolls -> alive++; run Redis() :: else fi;
    if :: changes + asks > 0 -> alive++; run Operator() :: else fi;
    earlier = (takes < 2 -> takes : 2);
    if :: earlier > 0 -> run Keeper(0, 0) :: else fi;
    if :: earlier > 1 -> run Keeper(0, 1) :: else fi
  };
  atomic { alive == 0 -> over = 1; run Keeper(1, 0) }
}
