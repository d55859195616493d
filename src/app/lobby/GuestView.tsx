/** Lets the host choose which parts of the page are shown to people who open the link. */
import { PARTS, type Part } from '../state/route.ts';
import { messages } from '../locales/index.ts';

interface Props {
  hidden: ReadonlySet<Part>;
  onhidden: (hidden: ReadonlySet<Part>) => void;
}

export function GuestView({ hidden, onhidden }: Props) {
  const { guests } = messages.value.lobby;
  return (
    <details class="fold">
      <summary>{guests.title}</summary>
      <fieldset class="guest-parts">
        <legend class="dim small">{guests.about}</legend>
        {PARTS.map((part) => (
          <label key={part} class="check">
            <input
              type="checkbox"
              checked={!hidden.has(part)}
              onChange={({ currentTarget: { checked } }) => {
                onhidden(new Set(PARTS.filter((one) => (one === part ? !checked : hidden.has(one)))));
              }}
            />
            {guests.parts[part]}
          </label>
        ))}
      </fieldset>
    </details>
  );
}
