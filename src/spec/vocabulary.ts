/**
 * What a language model's tokens stand for, as its files carry it: what it learned means nothing by
 * other tokens.
 */
import * as v from 'valibot';
import { MAX_VOCABULARY } from './gpt.ts';

/** Byte pairs begin with each byte; what follows is made of two tokens. */
export const BYTES = 256;

const token = v.pipe(v.number(), v.integer(), v.minValue(0));

export const Vocabulary = v.variant('tokens', [
  v.strictObject({
    tokens: v.literal('characters'),
    /** A token each (code points), in the order of their codes. */
    characters: v.pipe(
      v.string(),
      v.check((text) => {
        const codes = Array.from(text, (character) => character.codePointAt(0)!);
        return codes.length <= MAX_VOCABULARY && codes.every((code, i) => i === 0 || code > codes[i - 1]!);
      }, 'characters stand in the order of their codes, each once'),
    ),
  }),
  v.strictObject({
    tokens: v.literal('byte-pairs'),
    /** Of token 256 on, the two that it is made of; the first are made first. */
    pairs: v.pipe(
      v.array(v.tuple([token, token])),
      v.maxLength(MAX_VOCABULARY - BYTES),
      v.check(
        (pairs) => pairs.every((pair, i) => pair.every((one) => one < BYTES + i)),
        'a pair is made of tokens before it',
      ),
    ),
  }),
]);
export type Vocabulary = v.InferOutput<typeof Vocabulary>;
