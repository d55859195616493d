/** For hosts: sends a member out of the room. */
import { removeMember } from '../store.ts';
import { ConfirmButton } from './ConfirmButton.tsx';

export function RemoveButton({ member, name }: { member: string; name: string }) {
  return (
    <ConfirmButton
      class="quiet small-button"
      label="Remove"
      name={`Remove ${name}`}
      question={`Remove ${name}?`}
      yes="Remove"
      no="Keep"
      onyes={() => removeMember(member)}
    />
  );
}
