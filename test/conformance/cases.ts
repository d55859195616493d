/** All conformance cases. */
import { ALL_REDUCE_CASES } from './allReduce.ts';
import type { ConformanceCase } from './case.ts';
import { COALESCED_CASES } from './coalesced.ts';
import { DDP_CASES } from './ddp.ts';
import { ERROR_CASES } from './errors.ts';
import { GATHERING_CASES } from './gathering.ts';
import { GROUP_CASES } from './groups.ts';
import { INVALID_CALL_CASES } from './invalidCalls.ts';
import { JOIN_CASES } from './join.ts';
import { MEMBERSHIP_CASES } from './membership.ts';
import { MESSAGE_CASES } from './messages.ts';
import { OBJECT_CASES } from './objects.ts';
import { PARALLEL_CASES } from './parallel.ts';
import { PLAN_CASES } from './plans.ts';
import { TIMEOUT_CASES } from './timeouts.ts';

export const CASES: readonly ConformanceCase[] = [
  ...ALL_REDUCE_CASES,
  ...GATHERING_CASES,
  ...COALESCED_CASES,
  ...GROUP_CASES,
  ...OBJECT_CASES,
  ...MESSAGE_CASES,
  ...INVALID_CALL_CASES,
  ...ERROR_CASES,
  ...TIMEOUT_CASES,
  ...PLAN_CASES,
  ...PARALLEL_CASES,
  ...DDP_CASES,
  ...JOIN_CASES,
  ...MEMBERSHIP_CASES,
].sort((a, b) => a.number - b.number);
