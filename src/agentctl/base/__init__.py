"""What every part of agentctl shares: errors, typed values, JSON and text helpers. Imports none of our other parts."""
