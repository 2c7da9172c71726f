/* Callers that share calls (inventory/coalesce), for Spin: three callers with one key, at most two callers per call, and at
 * most two calls at once. Each caller may give up at any moment, and a call may hang forever.
 *
 * Each atomic{} runs under the group's lock. Between two of them any other process may act.
 */
c_decl {
  static int param(const char *name, int otherwise) { char *v = getenv(name); return v ? atoi(v) : otherwise; }
}

/* The broken twins: the right design without one guard each. */
#define ENDS_APART       1 /* a sender finds no waiting caller, and leaves the count of senders in a later step */
#define ENDS_AFTER_ONE   2 /* a sender ends after its call, even if callers wait */
#define GIVEN_UP_SENT    3 /* a caller that has given up is sent */
#define TAKEN_TWICE      4 /* a caller that is sent still waits */
#define NO_BOUND         5 /* each caller starts a call */
#define NO_PATIENCE      6 /* a call that hangs counts as in flight forever */
byte twin;
#define IS(t) (twin == t)

#define CALLERS   3
#define ALL       7
#define BATCH     2
#define IN_FLIGHT 2
#define BIT(i)    (1 << (i))

byte waiting, gaveUp, sent, done, hanging; /* a bit for each caller */
byte inFlight, underWay;                   /* number of senders; number of calls at the server */

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
       assert((batch & gaveUp) == 0);                                       /* a caller that has given up is never sent */
       assert((batch & sent) == 0);                                         /* a caller is sent once */
       sent = sent | batch; underWay++;
       assert(underWay <= IN_FLIGHT)
    fi };
  if
  :: batch == 0 -> atomic { inFlight--; goto gone }
  :: else
  fi;
  if                                                                        /* Group.callPatiently */
  :: atomic { done = done | batch; underWay-- }                             /* it returns */
  :: atomic { !IS(NO_PATIENCE) -> hanging = hanging | batch; underWay-- }   /* it hangs, and no longer counts as in flight */
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

/* When no process can act, every caller has an answer, has given up, or is in a call that hangs. */
proctype Rest() {
  atomic { timeout -> assert((done | gaveUp | hanging) == ALL); assert(hanging || inFlight == 0) }
}

init {
  atomic {
    c_code { now.twin = param("TWIN", 0); };
    run Caller(0); run Caller(1); run Caller(2); run Rest()
  }
}
