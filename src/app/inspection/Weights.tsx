/** Shows the weights of the first layer: a picture for each unit, and a legend of the colours. */
import { IMAGE_SIDE, type WeightPictures } from '../../spec/inspection.ts';
import { formatLoss } from '../locales/format.ts';
import { messages } from '../locales/index.ts';
import { Picture } from './Picture.tsx';
import { Subtitle } from './Subtitle.tsx';

export function Weights({ weights }: { weights: WeightPictures }) {
  const { side, count, units, values, scale } = weights;
  const labels = messages.value.inspection;
  const area = side * side;
  const largest = formatLoss(scale);
  return (
    <div class="weights">
      <div class="weights-title">
        <Subtitle>{labels.weights}</Subtitle>
        <p class="weights-legend small">
          <span>{labels.inhibits}</span>
          <span>−{largest}</span>
          <span class="weights-scale" aria-hidden="true" />
          <span>+{largest}</span>
          <span>{labels.activates}</span>
        </p>
      </div>
      <p class="small dim">
        {side === IMAGE_SIDE ? labels.pixelsOfUnit(count, units) : labels.windowOfUnit(units, side)}
      </p>
      <div class="weight-pictures" role="img" aria-label={labels.pictures(count, largest)}>
        {Array.from({ length: count }, (_, i) => (
          <Picture key={i} pixels={values.subarray(i * area, (i + 1) * area)} side={side} />
        ))}
      </div>
    </div>
  );
}
