/** Computes a layer and records the operations, so that it can be differentiated later. */
import type { Tensor } from '../backward/flatten.ts';
import { recordTape, type Tape } from '../backward/tape.ts';
import type { LayerPass, PipelineLayer } from './pipelineLayer.ts';

/**
 * The caller disposes of input and output separately. So if the layer returns its input, the output
 * is a clone of it.
 */
export function recordLayerPass(
  layer: PipelineLayer,
  x: Tensor,
  pass: LayerPass,
  padding: Tensor | null = null,
): { y: Tensor; tape: Tape } {
  const { result: y, tape } = recordTape(() => {
    const output = layer.apply(x, pass, padding);
    return output === x ? x.clone() : output;
  });
  return { y, tape };
}
