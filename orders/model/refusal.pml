/* Final refusals, for Spin. Once a request with a key has received a final refusal, no order with that key is durable, and none
 * becomes durable later.
 *
 * The sale has one unit. Ann's requests carry a key, and she repeats them until an answer is final. Bob takes the unit and may
 * cancel. There are two nodes and two Redis masters. The second master is a replica of the first until it is promoted, and
 * the first lives on. Each keeper works at one master.
 *
 * Each atomic{} is one script, one transaction or one read. Any process may pause or stop before any step, so nodes that
 * are slow or cut off need no state of their own.
 *
 * There is no clock. A node's copy of the sale is fresh while it was asked for less than T ago, and ages in a step of its own.
 * T has passed since an announcement when no copy is fresh that was read before it.
 *
 * Parameters come from the environment, as in sale.pml. README.md explains them.
 */
c_decl {
  static int param(const char *name, int otherwise) { char *v = getenv(name); return v ? atoi(v) : otherwise; }
}

/* The broken twins: the right design without one rule each. */
#define COPY_NEVER_OLD           1 /* a refusal needs no fresh copy of the sale */
#define COPY_UNCONFIRMED         2 /* a copy is used although no barrier has followed its read */
#define ANY_GATE_TRUSTED         3 /* the copy may name another epoch than the gate that refused */
#define KNOWN_BUYER_REFUSED      4 /* a refusal of a buyer whom the gate knows is final without a lookup in MySQL */
#define LOOKUP_OF_ORDERS_ONLY    5 /* a lookup in MySQL compares neither epoch nor mode */
#define LOOKUP_UNCONFIRMED       6 /* a lookup in MySQL answers without a barrier */
#define DIRECT_UNCONFIRMED       7 /* direct mode refuses without a barrier */
#define CONFIRMED_ELSEWHERE      8 /* a barrier may commit on another primary than the one that answered the read */
#define REBUILT_AT_ONCE          9 /* a rebuild does not wait for T */
#define DIRECT_AT_ONCE          10 /* direct mode does not wait for T */
#define ANNOUNCED_UNCONFIRMED   11 /* T counts from an announcement that may still be lost */
#define SWITCHED_UNASKED        12 /* a switch does not check that its announcement still stands */
#define STALE_UNNOTICED         13 /* a gate does not check which Redis it is on */
#define STALE_SELLS             14 /* a stale gate does not refuse, but it sells */
#define STALE_REFUSES           15 /* a stale gate does not sell, but it refuses */
#define ANY_EPOCH_COMMITTED     16 /* a commit names no epoch */
#define SHUT_GATE_COMMITTED     17 /* a keeper commits the queue of a gate that it has shut, whatever the epoch */
#define NO_DEADLINE             18 /* a script may run after its caller has been answered */
#define NO_COOLDOWN             19 /* units released to an empty gate are on sale at once */
#define MEMORY_NEVER_OLD        20 /* the memory of "sold out" needs no fresh copy */
#define MEMORY_OF_ANY_EPOCH     21 /* the memory may be of another epoch than the copy */
/* Sanity checks: each stops the search at a step of the right design, which shows that the search reaches it. */
#define REACHES_ORDER           31 /* a keeper commits ann's order */
#define REACHES_PROMOTED        32 /* a keeper commits it from the gate on the promoted replica */
#define REACHES_DIRECT_ORDER    33 /* direct mode sells to ann */
#define REACHES_COPY            34 /* a fresh copy makes a refusal final */
#define REACHES_LOOKUP          35 /* a lookup in MySQL makes a refusal final */
#define REACHES_DIRECT          36 /* direct mode refuses */
#define REACHES_MEMORY          37 /* the memory refuses */
#define REACHES_REBUILT         38 /* a rebuilt gate opens */
byte twin;
#define IS(t)      (twin == t)
#define REACHED(t) assert(twin != t)

/* Parameters: init reads them, README.md explains them. */
byte tries, asks, directs, failovers, restarts, dbfails; /* counted down */
hidden byte epochs, keepers; bit memory;

/* ---- MySQL ---- */
#define GATE     0 /* modes: the gate sells */
#define CHANGING 1 /* the gate sells, and a switch is announced */
#define DIRECT   2 /* MySQL sells */
#define NONE      0 /* orders: there is no row */
#define REJECTED  1
#define BOUGHT    2
#define CANCELLED 3
#define RELEASED  4
byte mEpoch = 1, mMode, ann, bob;
bit unsynced;                     /* the announcement can be read, but is lost if the primary crashes */
/* What a primary that was replaced still shows to node 0. It commits nothing. */
bit replaced, oldSold; byte oldEpoch, oldMode, oldAnn;
#define SOLD (ann == BOUGHT || bob == BOUGHT)

/* ---- Redis ---- */
#define COOLING 1 /* units: released, but not on sale yet */
#define ON_SALE 2
typedef Gate { bit open, stale, annKnown, annQueued, bobQueued, bobHeld; byte epoch, units }
Gate g[2];
bit promoted;
byte late;                        /* the epoch of a script of ann's that has not run yet */
#define SELLS(m)   (g[m].open && g[m].units == ON_SALE && (!g[m].stale || IS(STALE_SELLS) || IS(STALE_UNNOTICED)))
#define REFUSES(m) (g[m].open && g[m].units != ON_SALE && (!g[m].stale || IS(STALE_REFUSES) || IS(STALE_UNNOTICED)))

/* ---- nodes: a copy of the sale, and a memory of "sold out" ---- */
#define OLD   0
#define READ  1 /* fresh, but without a barrier after the read */
#define LOST  2 /* like READ, but the primary that was read has been replaced */
#define FRESH 3
byte cEpoch[2] = 1, cMode[2], age[2] = FRESH;
byte sEpoch[2], sGate[2];         /* sGate: 0 if nothing is remembered, else 1 + the number of the empty master */
#define VOUCHES(n, e) ((cEpoch[n] == e || IS(ANY_GATE_TRUSTED)) && (age[n] == FRESH && cMode[n] == GATE || IS(COPY_NEVER_OLD)))
#define REMEMBERS(n)  (sGate[n] && (cEpoch[n] == sEpoch[n] || IS(MEMORY_OF_ANY_EPOCH)) && \
                       (age[n] == FRESH && cMode[n] == GATE || IS(MEMORY_NEVER_OLD)))
/* The copy of node n is fresh and was read before the announcement that ends epoch e. */
#define BEFORE(n, e)  (age[n] != OLD && (cEpoch[n] < e || cEpoch[n] == e && cMode[n] == GATE))
/* The copy of node n has shown an announcement for T. */
#define SHOWN(n, atOnce) (cMode[n] == CHANGING && (age[n] == OLD || age[n] == FRESH || IS(ANNOUNCED_UNCONFIRMED)) && \
                          (!BEFORE(0, cEpoch[n]) && !BEFORE(1, cEpoch[n]) || IS(atOnce)))

/* ---- the promises ---- */
bit refused;                      /* ann has received a final refusal */
#define FINAL assert(!refused || ann != BOUGHT)

inline refuse()    { refused = 1; FINAL }
inline announce()  { mMode = CHANGING; unsynced = (dbfails > 0) }
inline sell(m)     { g[m].units = 0; g[m].annQueued = 1; g[m].annKnown = 1 }
inline release(m) { g[m].units = (g[m].units == ON_SALE || IS(NO_COOLDOWN) -> ON_SALE : COOLING) }
inline choose(m) {
  if
  :: m = 0
  :: promoted -> m = 1
  fi
}
inline copy(a, b) { /* gate b becomes a copy of gate a */
  g[b].open = g[a].open; g[b].stale = g[a].stale; g[b].annKnown = g[a].annKnown; g[b].annQueued = g[a].annQueued;
  g[b].bobQueued = g[a].bobQueued; g[b].bobHeld = g[a].bobHeld; g[b].epoch = g[a].epoch; g[b].units = g[a].units
}

proctype Ann() {
  byte n, m, e; bit known, old; /* e: the epoch of the gate that refused */
end:
  do
  :: atomic { tries > 0 && !refused -> tries--; choose(m);
       if
       :: n = 0
       :: n = 1
       fi;
       if
       :: cMode[n] != DIRECT ->
          if
          :: REMEMBERS(n) -> REACHED(REACHES_MEMORY); refuse()
          :: SELLS(m) && !g[m].annQueued -> sell(m)                    /* reserve.lua */
          :: REFUSES(m) && !g[m].annQueued -> e = g[m].epoch; known = g[m].annKnown
          :: !SELLS(m) && !REFUSES(m) || g[m].annQueued                /* 503 */
          :: IS(NO_DEADLINE) && !late -> late = g[m].epoch
          fi; m = 0
       :: cMode[n] == DIRECT -> m = 0;                                 /* Store.CommitDirect */
          if
          :: mMode == DIRECT && ann == NONE && !SOLD -> ann = BOUGHT; REACHED(REACHES_DIRECT_ORDER); FINAL
          :: mMode == DIRECT && ann == NONE && SOLD -> REACHED(REACHES_DIRECT); goto barrier
          :: mMode != DIRECT || ann != NONE                            /* 503, or the order */
          :: n == 0 && replaced && oldMode == DIRECT && oldAnn == NONE && oldSold -> old = 1; goto barrier
          fi
       fi };
     if
     :: atomic { e && VOUCHES(n, e) && (!known || IS(KNOWN_BUYER_REFUSED)) -> REACHED(REACHES_COPY); refuse() }
     :: atomic { e && ann == NONE && (mEpoch == e && mMode != DIRECT || IS(LOOKUP_OF_ORDERS_ONLY)) -> goto barrier }
     :: atomic { e && n == 0 && replaced && oldAnn == NONE && oldEpoch == e && oldMode != DIRECT -> old = 1; goto barrier }
     :: true                                                           /* 503, or the order */
     fi;
     goto answered;
barrier: /* after a lookup in MySQL (e > 0), or a refusal of direct mode */
     atomic {
       if
       :: !old || IS(CONFIRMED_ELSEWHERE) || IS((e -> LOOKUP_UNCONFIRMED : DIRECT_UNCONFIRMED)) ->
          assert(!e || twin != REACHES_LOOKUP); refuse()
       :: true                                                         /* 503 */
       fi };
answered:
     atomic { n = 0; e = 0; known = 0; old = 0 }
  od
}

/* A script of ann's that runs after she has been answered: only NO_DEADLINE allows it. */
proctype Late() {
  byte m;
end:
  do
  :: atomic { late -> choose(m);
       if
       :: SELLS(m) && g[m].epoch == late && !g[m].annQueued -> sell(m)
       :: true
       fi; late = 0; m = 0 }
  od
}

proctype Bob() {
end:
  if
  :: atomic { SELLS(0) -> g[0].units = 0; g[0].bobQueued = 1; g[0].bobHeld = 1 }
  :: atomic { promoted && SELLS(1) -> g[1].units = 0; g[1].bobQueued = 1; g[1].bobHeld = 1 }
  :: atomic { mMode == DIRECT && !SOLD && (cMode[0] == DIRECT || cMode[1] == DIRECT) -> bob = BOUGHT }
  fi;
end_cancels:
  atomic { bob == BOUGHT -> bob = CANCELLED }
}

proctype Node(byte n) {
  byte m;
end:
  do
  /* The node reads the sale, and a barrier follows. Where no primary can fail any more, the two are one step. */
  :: atomic { cEpoch[n] != mEpoch || cMode[n] != mMode || age[n] != FRESH ->
       cEpoch[n] = mEpoch; cMode[n] = mMode; age[n] = (dbfails > 0 && !IS(COPY_UNCONFIRMED) -> READ : FRESH) }
  :: atomic { n == 0 && replaced -> cEpoch[n] = oldEpoch; cMode[n] = oldMode; age[n] = (IS(COPY_UNCONFIRMED) -> FRESH : LOST) }
  :: atomic { age[n] == READ -> age[n] = FRESH; unsynced = 0 }
  :: atomic { age[n] == LOST && IS(CONFIRMED_ELSEWHERE) -> age[n] = FRESH }
  :: atomic { age[n] == FRESH -> age[n] = OLD }
  /* The gate refuses another buyer, and the node remembers that for a while. */
  :: atomic { memory && !sGate[n] -> choose(m);
       if
       :: g[m].open && !g[m].stale && g[m].units == 0 && !g[m].annKnown -> sEpoch[n] = g[m].epoch; sGate[n] = 1 + m
       :: else
       fi; m = 0 }
  :: atomic { sGate[n] -> sEpoch[n] = 0; sGate[n] = 0 }
  od
}

proctype Faults() {
end:
  do
  :: atomic { failovers + restarts > 0 && !promoted -> copy(0, 1) }                 /* the replica catches up */
  :: atomic { failovers > 0 && !promoted -> failovers--; promoted = 1; g[1].stale = 1 }
  :: atomic { restarts > 0 && !promoted -> restarts--; copy(1, 0); g[0].stale = 1 } /* the master restarts with less */
  :: atomic { dbfails > 0 -> dbfails--; /* another primary takes over, and node 0 can still read the old one */
       replaced = 1; oldEpoch = mEpoch; oldMode = mMode; oldAnn = ann; oldSold = SOLD;
       age[0] = (age[0] == READ -> LOST : age[0]); age[1] = (age[1] == READ -> LOST : age[1]);
       if
       :: unsynced -> mMode = GATE
       :: true
       fi; unsynced = 0 }
  :: atomic { unsynced -> unsynced = 0 }
  /* A cooldown lasts longer than a memory. */
  :: atomic { g[0].units == COOLING && sGate[0] != 1 && sGate[1] != 1 -> g[0].units = ON_SALE }
  :: atomic { g[1].units == COOLING && sGate[0] != 2 && sGate[1] != 2 -> g[1].units = ON_SALE }
  od
}

inline enterDirect() {
  atomic {
    if
    :: mEpoch == e && mMode == CHANGING || IS(SWITCHED_UNASKED) -> directs--; mEpoch++; mMode = DIRECT; unsynced = 0
    :: else
    fi; e = 0 }
}

/* Operators who ask for a rebuild, and controllers that enter direct mode */
proctype Others() {
  byte e; /* the epoch whose end was announced */
end:
  do
  :: atomic { mMode == GATE && asks + directs > 0 -> asks = (asks > 0 -> asks - 1 : 0); announce() }
  :: atomic { directs > 0 && SHOWN(0, DIRECT_AT_ONCE) -> e = cEpoch[0] }; enterDirect()
  :: atomic { directs > 0 && SHOWN(1, DIRECT_AT_ONCE) -> e = cEpoch[1] }; enterDirect()
  od
}

#define AMISS(m)   (!g[m].open || g[m].stale || g[m].epoch != mEpoch || mMode != GATE)
#define MAY_COMMIT (bEpoch == mEpoch && mMode != DIRECT || IS(ANY_EPOCH_COMMITTED) || IS(SHUT_GATE_COMMITTED) && e)

inline shut(announced) { e = announced; was = g[m].epoch; g[m].open = 0 } /* begin_rebuild.lua */

/* The keepers have no fence, because these rules hold without it. sale.pml shows what the fence is for. */
proctype Keeper(byte m) {
  byte bEpoch; bit bAnn, bBob, bBack;  /* a batch of the queue */
  byte e, was;                         /* the epoch whose end was announced, while the gate is shut; the gate's epoch */
  byte cNext, cAnn; bit cBob;          /* values from MySQL for the new gate */
end_starts:
  (m == 0 || promoted);
end:
  do
  :: atomic { g[m].annQueued || g[m].bobQueued -> bAnn = g[m].annQueued; bBob = g[m].bobQueued; bEpoch = g[m].epoch };
     atomic { /* Store.Commit */
       if
       :: MAY_COMMIT ->
          if
          :: bAnn && ann == NONE && !SOLD -> ann = BOUGHT; REACHED(REACHES_ORDER); assert(twin != REACHES_PROMOTED || m == 0); FINAL
          :: bAnn && ann == NONE && SOLD -> ann = REJECTED; bBack = 1
          :: bAnn && ann != NONE -> bBack = 1 /* a second order with the key */
          :: bAnn && ann != NONE              /* or the same order, committed before */
          :: !bAnn
          fi;
          if
          :: bBob && bob == NONE && !SOLD -> bob = BOUGHT
          :: bBob && bob != BOUGHT && (bob != NONE || SOLD) -> bBack = 1
          :: else
          fi
       :: else -> bEpoch = 0
       fi };
     atomic { /* ack.lua */
       if
       :: g[m].epoch == bEpoch -> g[m].annQueued = g[m].annQueued && !bAnn; g[m].bobQueued = g[m].bobQueued && !bBob;
          if
          :: bBack -> release(m)
          :: else
          fi
       :: else
       fi; bAnn = 0; bBob = 0; bBack = 0; bEpoch = 0 }
  :: atomic { bob == CANCELLED && g[m].epoch == mEpoch -> bob = RELEASED; /* release.lua */
       if
       :: g[m].bobHeld -> g[m].bobHeld = 0; release(m)
       :: else
       fi }
  :: atomic { AMISS(m) && mMode == GATE && mEpoch < epochs -> announce() }
  :: atomic { !e && AMISS(m) && mMode == DIRECT -> shut(mEpoch) }         /* nothing to wait for */
  :: atomic { !e && AMISS(m) && SHOWN(0, REBUILT_AT_ONCE) -> shut(cEpoch[0]) }
  :: atomic { !e && AMISS(m) && SHOWN(1, REBUILT_AT_ONCE) -> shut(cEpoch[1]) }
  :: atomic { e -> e = 0; was = 0 }                                       /* it dies, and another keeper takes over */
  :: atomic { e && mEpoch < epochs && (mEpoch == e && mMode != GATE || IS(SWITCHED_UNASKED)) -> /* Store.BeginEpoch */
       mEpoch++; mMode = GATE; unsynced = 0; e = 0;
       cNext = mEpoch; cAnn = ann; cBob = (bob == BOUGHT); bob = (bob == CANCELLED -> RELEASED : bob) };
     atomic { /* install.lua */
       if
       :: !g[m].open && g[m].epoch == was -> REACHED(REACHES_REBUILT);
          g[m].open = 1; g[m].stale = 0; g[m].epoch = cNext; g[m].units = (cAnn == BOUGHT || cBob -> 0 : ON_SALE);
          g[m].annKnown = (cAnn != NONE); g[m].bobHeld = cBob; g[m].annQueued = 0; g[m].bobQueued = 0
       :: true /* it dies, or another keeper has changed the gate */
       fi; was = 0; cNext = 0; cAnn = 0; cBob = 0 }
  od
}

init {
  atomic {
    c_code {
      now.twin = param("TWIN", 0); now.tries = param("TRIES", 2); now.memory = param("MEMORY", 0);
      epochs = param("EPOCHS", 2); keepers = param("KEEPERS", 1);
      now.asks = param("ASKS", 0); now.directs = param("DIRECTS", 0); now.failovers = param("FAILOVERS", 0);
      now.restarts = param("RESTARTS", 0); now.dbfails = param("DBFAILS", 0);
    };
    g[0].open = 1; g[0].epoch = 1; g[0].units = ON_SALE;
    run Ann(); run Bob(); run Node(0); run Node(1); run Faults(); run Others();
    if :: keepers > 0 -> run Keeper((failovers > 0 -> 1 : 0)) :: else fi;
    if :: keepers > 1 -> run Keeper(0) :: else fi;
    if :: IS(NO_DEADLINE) -> run Late() :: else fi
  }
}
