/**
 * The lesson: a room whose ranks have a few small numbers instead of a model, and add them up step
 * by step. This file defines the leader's orders and the lesson's state, which all ranks have and
 * pages show. Both are sent as JSON, so they are schemas.
 */
import * as v from 'valibot';
import { countSchema, MAX_WORLD_SIZE, memberIdSchema, rankSchema, worldSizeSchema } from './scalars.ts';

export const LESSON_ALGORITHMS = ['ring', 'parameter-server'] as const;
export type LessonAlgorithm = (typeof LESSON_ALGORITHMS)[number];

/** The largest number of a lesson. Sums of such numbers are easy to follow and exact in float32. */
export const MAX_LESSON_NUMBER = 99;
/**
 * Each rank has at least this many numbers. If there are more ranks than this, each rank has as
 * many numbers as there are ranks, so that no chunk is empty.
 */
const LEAST_NUMBERS = 4;
/**
 * Limits of the delay of a slowed link, in seconds: long enough to be visible, short enough to wait
 * for.
 */
const SLOW_SECONDS = { min: 2, max: 8 } as const;
/** The highest page number of a lesson's text that an order can name. Pages are counted from 0. */
const MAX_PAGES = 32;

/** Returns how many numbers each of `n` ranks has. */
export function lessonNumbersPerRank(n: number): number {
  return Math.max(LEAST_NUMBERS, n);
}

const perRank = <const Item extends v.GenericSchema>(item: Item) => v.pipe(v.array(item), v.maxLength(MAX_WORLD_SIZE));
const mode = v.picklist(LESSON_ALGORITHMS);

const number = v.pipe(v.number(), v.integer(), v.minValue(-MAX_LESSON_NUMBER), v.maxValue(MAX_LESSON_NUMBER));

/** A rank's own numbers. */
export const OwnLessonNumbers = v.pipe(v.array(number), v.minLength(LEAST_NUMBERS), v.maxLength(MAX_WORLD_SIZE));

/**
 * A rank whose link is slow. The rank sends its messages one after the other, and waits for
 * `seconds` before each message.
 */
const Slow = v.strictObject({
  rank: rankSchema,
  seconds: v.pipe(v.number(), v.minValue(SLOW_SECONDS.min), v.maxValue(SLOW_SECONDS.max)),
});

export const LessonOrder = v.variant('type', [
  /**
   * Changes one number of a rank. Ranks other than the leader may send only this order, and only
   * for their own numbers.
   */
  v.strictObject({
    type: v.literal('edit'),
    rank: rankSchema,
    place: v.pipe(countSchema, v.maxValue(MAX_WORLD_SIZE - 1)),
    value: number,
  }),
  /**
   * Take the next `count` steps of the round without pauses, or all remaining steps if there are
   * fewer.
   */
  v.strictObject({ type: v.literal('steps'), count: v.pipe(countSchema, v.minValue(1)) }),
  /** Begin a new round with all ranks and their present numbers. */
  v.strictObject({ type: v.literal('begin'), mode }),
  v.strictObject({ type: v.literal('slow'), slow: v.nullable(Slow) }),
  /** Show this page of text to the class. */
  v.strictObject({ type: v.literal('page'), page: v.pipe(countSchema, v.maxValue(MAX_PAGES)) }),
  v.strictObject({ type: v.literal('finish') }),
]);
export type LessonOrder = v.InferOutput<typeof LessonOrder>;

/**
 * A step: each list has one element per rank. Times are whole milliseconds since the round's first
 * step, without the time in which ranks wait for the leader.
 */
const LessonStep = v.strictObject({
  /** The time at which the rank's data for this step was ready to be sent. */
  startedAt: perRank(countSchema),
  /**
   * The time at which the rank had received the data of this step; equal to `startedAt` if it
   * receives nothing.
   */
  endedAt: perRank(countSchema),
  /** Payload bytes, without headers. */
  sentBytes: perRank(countSchema),
  receivedBytes: perRank(countSchema),
});
export type LessonStep = v.InferOutput<typeof LessonStep>;

const Round = v.strictObject({
  /** Number of the round, from 1. */
  number: countSchema,
  mode,
  /** Ranks 0 .. n-1 take part; ranks that join during the round wait for the next one. */
  n: worldSizeSchema,
  /** Each rank's numbers at the start of the round (`own`) and now (`held`). */
  own: perRank(v.array(v.number())),
  held: perRank(v.array(v.number())),
  /** The completed steps. */
  steps: v.pipe(v.array(LessonStep), v.maxLength(2 * MAX_WORLD_SIZE)),
});
export type LessonRound = v.InferOutput<typeof Round>;

const Member = v.strictObject({ member: memberIdSchema, name: v.pipe(v.string(), v.maxLength(40)) });
const Named = v.strictObject({ rank: rankSchema, name: v.string() });

/**
 * Bytes that the busiest rank's line to the network carries in a whole round. The line carries both
 * directions at the same time, so each step counts the larger of its sent and received bytes.
 */
const Measured = v.strictObject({ n: worldSizeSchema, bytes: countSchema });

export const LessonState = v.strictObject({
  /** The number of changes so far. Of two states, the one with the higher version is newer. */
  version: countSchema,
  /** In ring order. */
  members: perRank(Member),
  /** The rank whose page sends the orders. */
  leader: rankSchema,
  page: countSchema,
  /** The numbers with which each rank starts the next round. */
  numbers: perRank(OwnLessonNumbers),
  round: Round,
  slow: v.nullable(Slow),
  /** Measurements of the latest complete round of each mode. */
  measured: v.strictObject({ ring: v.nullable(Measured), 'parameter-server': v.nullable(Measured) }),
  /**
   * The latest change of the members: those that left (with their former rank) and those that
   * joined. `isRestarted` means that the change restarted the round. `null` if a round has begun or
   * a step was taken since the change.
   */
  change: v.nullable(v.strictObject({ left: v.array(Named), joined: v.array(Named), isRestarted: v.boolean() })),
  isOver: v.boolean(),
});
export type LessonState = v.InferOutput<typeof LessonState>;
