/** Schemas of single values that messages, events and files share. */
import * as v from 'valibot';
import { ROOM_CODE_ALPHABET, ROOM_CODE_LENGTH } from './roomCode.ts';

/** The largest number of ranks in a room. */
export const MAX_WORLD_SIZE = 256;

export const text = (max: number) => v.pipe(v.string(), v.maxLength(max));
export const count = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(Number.MAX_SAFE_INTEGER));
export const percent = v.pipe(count, v.maxValue(100));
/** Number of a run or a generation; frames store a generation in 32 bits. */
export const ordinal = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(2 ** 32 - 1));
export const memberId = v.pipe(v.string(), v.regex(/^[\w-]{8,32}$/));
export const displayName = v.pipe(v.string(), v.trim(), v.minLength(1), v.maxLength(40));
export const roomCode = v.pipe(v.string(), v.regex(new RegExp(`^[${ROOM_CODE_ALPHABET}]{${ROOM_CODE_LENGTH}}$`)));
export const worldSize = v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(MAX_WORLD_SIZE));
export const secret = v.pipe(v.string(), v.regex(/^[\w.-]{16,128}$/));
export const rank = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(MAX_WORLD_SIZE - 1));

export const finite = v.pipe(v.number(), v.finite());
/** Returns a schema for a list with one element per rank. */
export const perRank = <const Schema extends v.GenericSchema>(schema: Schema) =>
  v.pipe(v.array(schema), v.maxLength(MAX_WORLD_SIZE));
export const hash = text(64);
