/** The tokenizer of a model, for a text or from a vocabulary. */
import type { GptModel } from '../../spec/gpt.ts';
import type { Vocabulary } from '../../spec/vocabulary.ts';
import { BytePairs } from './bytePairs.ts';
import { Characters } from './characters.ts';
import type { Tokenizer } from './tokenizer.ts';

/**
 * For a text of these `characters`, in whatever order; byte pairs are those of its part `train`.
 *
 * @throws (rejects) DataError where there are too many different characters.
 */
export async function createTokenizer(
  { tokens, vocabulary }: Pick<GptModel, 'tokens' | 'vocabulary'>,
  { characters, train }: { characters: string; train: AsyncIterable<string> },
): Promise<Tokenizer> {
  return tokens === 'characters' ? new Characters(characters) : BytePairs.of(train, vocabulary);
}

export function tokenizerOf(vocabulary: Vocabulary): Tokenizer {
  return vocabulary.tokens === 'characters' ? new Characters(vocabulary.characters) : new BytePairs(vocabulary.pairs);
}
