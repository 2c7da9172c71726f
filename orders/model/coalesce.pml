/* Callers who share calls (inventory/coalesce), for Spin: three callers with one key, of whom two may share a call, and two
 * calls at once. Each caller may give up at any moment, and a call may hang for ever.
 *
 * What stands in atomic{} is done under the group's lock; between two of them everybody else may act.
 */
c_decl {
  static int param(const char *name, int otherwise) { char *v = getenv(name); return v ? atoi(v) : otherwise; }
}

/* The broken twins: the right design less one guard each. */
#define ENDS_APART       1 /* a sender sees that nobody waits, and counts itself out a moment later */
#define ENDS_AFTER_ONE   2 /* it ends after its call, whoever waits */
#define GIVEN_UP_SENT    3 /* who has given up is taken along */
#define TAKEN_TWICE      4 /* who is taken along still waits */
#define NO_BOUND         5 /* each caller has a call begin */
#define NO_PATIENCE      6 /* a call that hangs counts for ever */
byte twin;
#define IS(t) (twin == t)

#define CALLERS   3
#define ALL       7
#define BATCH     2
#define IN_FLIGHT 2
#define BIT(i)    (1 << (i))

byte waiting, gaveUp, sent, done, hanging; /* a bit for each caller */
byte inFlight, underWay;                   /* senders; calls, as the server sees them */

proctype Caller(byte i) {
  bit leaves;
  if :: leaves = 0 :: leaves = 1 fi;
  atomic {                                                                  /* Group.join */
    waiting = waiting | BIT(i);
    if
    :: inFlight < IN_FLIGHT || IS(NO_BOUND) -> inFlight++; run Sender()
    :: else
    fi };
end_waits:
  if
  :: done & BIT(i)
  :: atomic { leaves && !(done & BIT(i)) -> gaveUp = gaveUp | BIT(i) }
  fi
}

proctype Sender() {
  byte batch, n, i;
next:
  atomic {                                                                  /* Group.next */
    batch = 0; n = 0;
    for (i : 0 .. CALLERS - 1) {
      if
      :: (waiting & BIT(i)) && (!(gaveUp & BIT(i)) || IS(GIVEN_UP_SENT)) && n < BATCH -> batch = batch | BIT(i); n++
      :: else
      fi
    };
    waiting = waiting & ~(IS(TAKEN_TWICE) -> 0 : batch);
    if
    :: batch == 0 && !IS(ENDS_APART) -> inFlight--; goto gone
    :: batch == 0 && IS(ENDS_APART)
    :: else ->
       assert((batch & gaveUp) == 0);                                       /* never sent */
       assert((batch & sent) == 0);                                         /* not sent twice */
       sent = sent | batch; underWay++;
       assert(underWay <= IN_FLIGHT)
    fi };
  if
  :: batch == 0 -> atomic { inFlight--; goto gone }
  :: else
  fi;
  if                                                                        /* Group.callPatiently */
  :: atomic { done = done | batch; underWay-- }                             /* it returns */
  :: atomic { !IS(NO_PATIENCE) -> hanging = hanging | batch; underWay-- }   /* it hangs, and counts no longer */
  :: atomic { IS(NO_PATIENCE) -> hanging = hanging | batch };
end_hangs:
     false
  fi;
  if
  :: IS(ENDS_AFTER_ONE) -> atomic { inFlight-- }
  :: else -> goto next
  fi;
gone:
}

/* Once nobody goes on: who has not given up has an answer, or is in a call that hangs. */
proctype Rest() {
  atomic { timeout -> assert((done | gaveUp | hanging) == ALL); assert(hanging || inFlight == 0) }
}

init {
  atomic {
    c_code { now.twin = param("TWIN", 0); };
    run Caller(0); run Caller(1); run Caller(2); run Rest()
  }
}
