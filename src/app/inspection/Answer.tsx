/** Shows the probability of each digit. */
import { formatShare } from '../locales/format.ts';
import { messages } from '../locales/index.ts';
import { Subtitle } from './Subtitle.tsx';

/** @param probabilities the probability of each digit; `null` if there is nothing to classify. */
export function Answer({ probabilities }: { probabilities: readonly number[] | null }) {
  const labels = messages.value.inspection;
  const likeliest = probabilities === null ? -1 : probabilities.indexOf(Math.max(...probabilities));
  return (
    <div class="answer">
      <Subtitle>{labels.answer}</Subtitle>
      {/* Screen readers announce a new digit, but not a new probability. */}
      <p role="status">
        {likeliest < 0 ? <span class="dim">{labels.nothing}</span> : <strong>{labels.reads(likeliest)}</strong>}
      </p>
      <table class="bars">
        <thead class="away">
          <tr>
            <th scope="col">{labels.digit}</th>
            <th scope="col">{labels.probability}</th>
          </tr>
        </thead>
        <tbody>
          {Array.from({ length: 10 }, (_, digit) => {
            const share = probabilities?.[digit] ?? 0;
            return (
              <tr key={digit} class={digit === likeliest ? 'likeliest' : undefined}>
                <th scope="row">{digit}</th>
                <td>
                  <span class="bar-track">
                    <span class="bar-ink" style={{ width: `${100 * share}%` }} />
                  </span>
                  <span class="bar-share">{probabilities === null ? '–' : formatShare(share)}</span>
                  <span class="bar-word">{digit === likeliest && labels.likeliest}</span>
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
