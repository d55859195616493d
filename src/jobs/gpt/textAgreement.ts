/**
 * Facts of texts: the characters that occur, and the loss of a bigram model. They are computed for
 * the text of one tab and merged over the texts of all tabs.
 */
import { MAX_VOCABULARY_CHARACTERS } from '../../spec/gpt.ts';
import type { TextFacts } from '../../spec/dataFacts.ts';
import { DataError } from '../../util/errors.ts';
import type { Corpus } from './corpus.ts';

/** Maximum number of characters that a message lists. */
const MOST_NAMED = 8;

/**
 * Returns the facts of one tab's text.
 *
 * @param corpus a corpus whose tokens are characters.
 */
export function textFactsOf({ tokenizer, test, bigramLoss }: Corpus): TextFacts {
  const { vocabulary } = tokenizer;
  const characters = vocabulary.tokens === 'characters' ? vocabulary.characters : '';
  return { kind: 'text', characters, bigram: { characters: test.tokens.length, loss: bigramLoss } };
}

/** @throws DataError if there are too many different characters. */
export function checkTextFacts({ characters }: TextFacts): void {
  const { length } = Array.from(characters);
  if (length <= MAX_VOCABULARY_CHARACTERS) return;
  throw new DataError(
    `The texts of all tabs have ${length} different characters, but a model supports at most ${MAX_VOCABULARY_CHARACTERS}. Remove rare characters.`,
  );
}

/** Merges facts; the result does not depend on their order. */
export function mergeTextFacts(texts: readonly TextFacts[]): TextFacts {
  const codes = new Set(texts.flatMap(({ characters }) => Array.from(characters, (one) => one.codePointAt(0)!)));
  const parts = texts.map(({ bigram }) => bigram).sort((a, b) => a.loss - b.loss || a.characters - b.characters);
  const characters = parts.reduce((sum, one) => sum + one.characters, 0);
  const loss = parts.reduce((sum, one) => sum + one.loss * one.characters, 0) / Math.max(1, characters);
  return {
    kind: 'text',
    characters: String.fromCodePoint(...[...codes].sort((a, b) => a - b)),
    bigram: { characters, loss },
  };
}

/**
 * Returns the reason why a text does not match the facts that ranks agreed on, or `null` if the
 * text matches.
 */
export function whyTextDiffersFromFacts(agreed: TextFacts, own: TextFacts): string | null {
  const known = new Set(agreed.characters);
  const unknown = Array.from(own.characters).filter((one) => !known.has(one));
  if (unknown.length === 0) return null;
  const some = unknown.slice(0, MOST_NAMED).map((one) => JSON.stringify(one));
  return `its text has characters that the run does not know (${some.join(', ')}${unknown.length > some.length ? ', ...' : ''})`;
}
