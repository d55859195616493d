/**
 * Samples tokens from a language model on the CPU. Tokens are generated one after the other, so a
 * GPU would have little parallel work and a readback for each token.
 */
import { createRng } from '../../util/rng.ts';
import { elementCountOf } from '../../util/shape.ts';
import { BLOCK_WEIGHT_NAMES, gptWeightShapes, type GptNetworkSize } from './shapes.ts';
import { embedToken, softmaxInPlace, createTokenLayer, tokenLogits } from './tokenLayers.ts';

/**
 * Computes the logits of the token that follows `token`, which is at `place` in the context window.
 * Tokens come in the order of their places; a window begins again at place 0.
 */
export type TokenForward = (token: number, place: number) => Float32Array | Promise<Float32Array>;

/**
 * Returns the forward pass of a whole network.
 *
 * @param tokens number of tokens in the vocabulary. The matrix may have additional rows that do not
 *   correspond to tokens.
 * @param weights all variables of the network, one after the other.
 */
export function createTokenForward(size: GptNetworkSize, tokens: number, weights: Float32Array): TokenForward {
  let at = 0;
  const parts = gptWeightShapes(size).map((shape) => weights.subarray(at, (at += elementCountOf(shape))));
  const perLayer = BLOCK_WEIGHT_NAMES.length / 2;
  const layers = Array.from({ length: 2 * size.layers }, (_, i) => {
    const name = `layer${(i >> 1) + 1}.${i % 2 === 0 ? 'attention' : 'feedForward'}`;
    return createTokenLayer(name, parts.slice(2 + perLayer * i, 2 + perLayer * (i + 1)), size);
  });
  layers.push(createTokenLayer('norm', parts.slice(-1), size));
  return (token, place) => {
    let x = embedToken(token, place, parts, size.width);
    for (const layer of layers) x = layer(x, place);
    return tokenLogits(x, parts[0]!, tokens);
  };
}

/**
 * Reads `prompt`, then samples and yields one token after the other.
 *
 * @param prompt at least one token.
 * @param options.temperature If it is above 1, unlikely tokens become more likely. If it is below
 *   1, they become less likely. If it is 0, the most likely token is always chosen.
 */
export async function* sampleTokens(
  forward: TokenForward,
  { context }: Pick<GptNetworkSize, 'context'>,
  prompt: ArrayLike<number>,
  { temperature, seed }: { temperature: number; seed: number },
): AsyncGenerator<number, never> {
  const rng = createRng(seed);
  /** Tokens in the context window. */
  let window: number[] = [];
  const read = async (token: number): Promise<Float32Array> => {
    if (window.length === context) {
      // The window is full, so its first half is dropped. Positions are relative to the start of
      // the window, so the second half is computed again.
      window = window.slice(context >> 1);
      for (const [place, one] of window.entries()) await forward(one, place);
    }
    window.push(token);
    return forward(token, window.length - 1);
  };
  let logits = new Float32Array() as Float32Array;
  for (let i = 0; i < prompt.length; i++) logits = await read(prompt[i]!);
  for (;;) {
    const token = draw(logits, temperature, rng.next());
    yield token;
    logits = await read(token);
  }
}

/**
 * Chooses a token.
 *
 * @param chance a random number in [0, 1)
 */
function draw(logits: Float32Array, temperature: number, chance: number): number {
  if (temperature === 0) return logits.indexOf(logits.reduce((a, b) => Math.max(a, b), -Infinity));
  const probabilities = logits.slice();
  softmaxInPlace(probabilities, 1 / temperature);
  let rest = chance;
  for (let token = 0; token < probabilities.length; token++) {
    rest -= probabilities[token]!;
    if (rest < 0) return token;
  }
  // Because of rounding errors, the sum of the probabilities may be at most `chance`. Then the last
  // token is chosen.
  return probabilities.length - 1;
}
