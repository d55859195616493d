/** Schemas of single values that messages, events and files share. */
import * as v from 'valibot';
import { ROOM_CODE_ALPHABET, ROOM_CODE_LENGTH } from './roomCode.ts';

/** The largest number of ranks in a room. */
export const MAX_WORLD_SIZE = 256;

export const textSchema = (max: number) => v.pipe(v.string(), v.maxLength(max));
export const countSchema = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(Number.MAX_SAFE_INTEGER));
export const percentSchema = v.pipe(countSchema, v.maxValue(100));
/** Number of a run or a generation; frames store a generation in 32 bits. */
export const ordinalSchema = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(2 ** 32 - 1));
export const memberIdSchema = v.pipe(v.string(), v.regex(/^[\w-]{8,32}$/));
export const displayNameSchema = v.pipe(v.string(), v.trim(), v.minLength(1), v.maxLength(40));
export const roomCodeSchema = v.pipe(v.string(), v.regex(new RegExp(`^[${ROOM_CODE_ALPHABET}]{${ROOM_CODE_LENGTH}}$`)));
export const worldSizeSchema = v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(MAX_WORLD_SIZE));
export const secretSchema = v.pipe(v.string(), v.regex(/^[\w.-]{16,128}$/));
export const rankSchema = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(MAX_WORLD_SIZE - 1));

export const finiteSchema = v.pipe(v.number(), v.finite());
/** Returns a schema for a list with one element per rank. */
export const perRankSchema = <const Schema extends v.GenericSchema>(schema: Schema) =>
  v.pipe(v.array(schema), v.maxLength(MAX_WORLD_SIZE));
export const hashSchema = textSchema(64);
