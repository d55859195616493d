/**
 * The vocabulary of a language model. Model files contain it, because the weights are meaningless
 * with other tokens.
 */
import * as v from 'valibot';
import { MAX_VOCABULARY_CHARACTERS, MAX_VOCABULARY_TOKENS } from './gpt.ts';

/**
 * Number of byte-pair tokens that are single bytes. Each further token consists of two earlier
 * tokens.
 */
export const BYTE_TOKEN_COUNT = 256;

const token = v.pipe(v.number(), v.integer(), v.minValue(0));

export const Vocabulary = v.variant('tokens', [
  v.strictObject({
    tokens: v.literal('characters'),
    /** One token per character (code point), sorted by code point. */
    characters: v.pipe(
      v.string(),
      v.check((text) => {
        const codes = Array.from(text, (character) => character.codePointAt(0)!);
        return codes.length <= MAX_VOCABULARY_CHARACTERS && codes.every((code, i) => i === 0 || code > codes[i - 1]!);
      }, 'characters must be distinct and sorted by code point'),
    ),
  }),
  v.strictObject({
    tokens: v.literal('byte-pairs'),
    /**
     * The two parts of each token from number 256 on. Tokens are in the order in which they were
     * learned.
     */
    pairs: v.pipe(
      v.array(v.tuple([token, token])),
      v.maxLength(MAX_VOCABULARY_TOKENS - BYTE_TOKEN_COUNT),
      v.check(
        (pairs) => pairs.every((pair, i) => pair.every((one) => one < BYTE_TOKEN_COUNT + i)),
        'a pair must consist of earlier tokens',
      ),
    ),
  }),
]);
export type Vocabulary = v.InferOutput<typeof Vocabulary>;
